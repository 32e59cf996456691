"""Requests and replies over a chain that executed the transactions; and replies when the node fails."""

from typing import Any

import orjson
import pytest
from solders.pubkey import Pubkey
from solders.system_program import TransferParams, transfer

from actors.lookups.endpoints import LookupMethods
from actors.lookups.fan_out import CALLS_PER_REQUEST, Asker
from actors.methods.entries import Question, encoded
from actors.methods.history import HistoryQuestion
from actors.upstream import replies
from actors.upstream.replies import NodeAnswer
from tests.ported_node import PortedNode, node_error, node_result

from .scene import Scene

LISTED = ("getSignaturesForAddress",)


async def asked(node: PortedNode, question: Question) -> NodeAnswer:
    return await LookupMethods(Asker(node, 100)).handlers()["getTransactionHistory"](encoded(question), 30_000)


async def result(node: PortedNode, question: Question) -> Any:
    return orjson.loads((await asked(node, question)).value())


def gifts(scene: Scene, count: int) -> list[str]:
    """Signatures of so many transfers from Anna to Bert, newest first."""
    made = []
    for lamports in range(1, count + 1):
        params = TransferParams(
            from_pubkey=scene.anna.pubkey(), to_pubkey=scene.bert.pubkey(), lamports=lamports + 10**6
        )
        made.append(str(scene.local.land(scene.local.signed(scene.anna, transfer(params))).signature))
    scene.local.finalize()
    return made[::-1]


async def test_a_history_lists_the_newest_first(scene: Scene):
    """As many entries as asked for, each with its transaction."""
    signatures = gifts(scene, 5)
    node = PortedNode(scene.local)
    body = await result(node, HistoryQuestion(str(scene.bert.pubkey()), 3, "confirmed"))
    assert [entry["signature"] for entry in body["transactions"]] == signatures[:3]
    assert body["count"] == 3
    assert all(entry["found"] for entry in body["transactions"])
    assert len(node.asked("getTransaction")) == 3


async def test_a_history_goes_on_before_a_signature(scene: Scene):
    """`before` and `until` are passed to the listing."""
    signatures = gifts(scene, 5)
    question = HistoryQuestion(str(scene.bert.pubkey()), 10, "finalized", before=signatures[1], until=signatures[3])
    body = await result(PortedNode(scene.local), question)
    assert [entry["signature"] for entry in body["transactions"]] == [signatures[2]]


async def test_what_the_node_lists_and_cannot_give_is_included(scene: Scene):
    """Interface: entries not found included, with found false."""
    signatures = gifts(scene, 3)
    gone, too_new = signatures[0], signatures[1]

    def interfere(method: str, params: list[Any]) -> NodeAnswer | None:
        if method == "getTransaction" and params[0] == gone:
            return node_result(None)
        if method == "getTransaction" and params[0] == too_new:
            return node_error(-32015, "Transaction version (7) is not supported by the requesting client.")
        return None

    body = await result(PortedNode(scene.local, interfere), HistoryQuestion(str(scene.bert.pubkey()), 3, "confirmed"))
    assert [entry["found"] for entry in body["transactions"]] == [False, False, True]
    assert "no longer keeps" in body["transactions"][0]["explanation"]
    assert "version (7)" in body["transactions"][1]["explanation"]
    assert body["count"] == 3


@pytest.mark.parametrize("failure", [replies.TIMED_OUT, replies.UNREACHABLE, node_error(-32019, "storage")])
async def test_a_history_is_whole_or_not_given(scene: Scene, failure: NodeAnswer):
    """The first failed call is the answer, and no further call is made."""
    gifts(scene, 40)
    node = PortedNode(scene.local, lambda method, _: failure if method == "getTransaction" else None)
    assert await asked(node, HistoryQuestion(str(scene.bert.pubkey()), 40, "confirmed")) is failure
    assert len(node.asked("getTransaction")) <= CALLS_PER_REQUEST


async def test_a_listing_that_fails_is_the_answer(scene: Scene):
    """The node refuses an unknown `before`, and its error is the answer."""
    failure = node_error(-32020, "Transaction x not found")
    node = PortedNode(interfere=lambda *_: failure)
    assert await asked(node, HistoryQuestion(str(scene.bert.pubkey()), 3, "confirmed")) is failure


@pytest.mark.parametrize("nonsense", [{}, {"meta": None}, [], "x", {"meta": {"err": None}, "transaction": {}}])
async def test_a_transaction_that_is_none_is_said_to_be_so(scene: Scene, nonsense: Any):
    """No exception and no half entry; the other entries are complete."""
    first, second = gifts(scene, 2)

    def interfere(method: str, params: list[Any]) -> NodeAnswer | None:
        return node_result(nonsense) if method == "getTransaction" and params[0] == first else None

    question = HistoryQuestion(str(scene.bert.pubkey()), 2, "confirmed")
    one, other = (await result(PortedNode(scene.local, interfere), question))["transactions"]
    assert (one["signature"], one["found"], one["fee"]) == (first, False, None)
    assert "not understood" in one["explanation"]
    assert (other["signature"], other["found"]) == (second, True)


@pytest.mark.parametrize("nonsense", [None, 5, [5], [{}], {"a": 1}])
async def test_a_listing_that_is_none_is_garbage(nonsense: Any):
    """A malformed listing is garbage, not an exception."""
    node = PortedNode(interfere=lambda *_: node_result(nonsense))
    assert await asked(node, HistoryQuestion(str(Pubkey.new_unique()), 3, "confirmed")) is replies.GARBAGE


async def test_an_answer_names_the_nodes_that_it_is_made_of(scene: Scene):
    """The X-Node header names it."""
    gifts(scene, 1)

    def interfere(method: str, params: list[Any]) -> NodeAnswer:
        return replies.made(orjson.dumps(scene.local.call(method, *params)), "anna" if method in LISTED else "bert")

    node = PortedNode(interfere=interfere)
    bert = str(scene.bert.pubkey())
    assert (await asked(node, HistoryQuestion(bert, 1, "confirmed"))).node == "anna, bert"
    nobody = str(Pubkey.new_unique())
    assert (await asked(node, HistoryQuestion(nobody, 1, "confirmed"))).node == "anna"
