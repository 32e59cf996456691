"""Bulk look-ups: shapes, failures of single items, and the number of calls to the node."""

from typing import Any

import orjson
from solders.pubkey import Pubkey
from solders.system_program import TransferParams, transfer

from actors.lookups.bulk import BulkLookups
from actors.lookups.fan_out import Asker
from actors.methods.accounts import BulkQuestion
from actors.methods.entries import encoded
from actors.upstream import replies
from actors.upstream.account_view import AccountView, under
from actors.upstream.replies import NodeAnswer, PiecesAnswer
from tests.ported_node import PortedNode, node_error, node_result

from .scene import TOKEN_PROGRAM_ID, Scene


async def asked(node: Any, name: str, *items: str, commitment: str = "finalized") -> tuple[Any, tuple[int, int]]:
    """(body, (pieces, done))."""
    answer = await BulkLookups(Asker(node, 100)).handlers()[name](encoded(BulkQuestion(items, commitment)), 30_000)
    assert isinstance(answer, PiecesAnswer)
    return orjson.loads(answer.value()), (answer.pieces, answer.done)


def strangers(count: int) -> list[str]:
    return [str(Pubkey.new_unique()) for _ in range(count)]


async def test_balances_are_asked_by_the_hundred(scene: Scene):
    """Decisions: {address, lamports}; an account that is absent has 0."""
    items = [str(scene.bert.pubkey()), *strangers(249)]
    node = PortedNode(scene.local)
    body, pieces = await asked(node, "bulk/getBalances", *items)
    assert body["results"][0] == {"address": items[0], "lamports": 10**10}
    assert [row["address"] for row in body["results"]] == items
    assert {row["lamports"] for row in body["results"][1:]} == {0}
    assert (body["errors"], pieces) == ([], (250, 250))
    assert [len(params[0]) for params in node.asked("getMultipleAccounts")] == [100, 100, 50]


async def test_a_hundred_balances_fail_together_and_the_others_stand(scene: Scene):
    """Per-item errors, not charged."""
    items = strangers(150)

    def interfere(method: str, params: list[Any]) -> NodeAnswer | None:
        return replies.TIMED_OUT if items[0] in params[0] else None

    body, pieces = await asked(PortedNode(scene.local, interfere), "bulk/getBalances", *items)
    assert [row["address"] for row in body["results"]] == items[100:]
    assert body["errors"] == [{"address": item, "error": "the node did not answer in time"} for item in items[:100]]
    assert pieces == (150, 50)


class SlicedNode:
    """Answers each question from a slot of its own. later: slots of the questions that come again, in turn."""

    def __init__(self, *slots: int) -> None:
        self.slots = list(slots)
        self.least: list[int] = []

    async def call(self, method: str, params: bytes, timeout_ms: int) -> NodeAnswer:
        addresses, config = orjson.loads(params)
        self.least.append(config.get("minContextSlot", 0))
        slot = self.slots.pop(0) if len(self.slots) > 1 else self.slots[0]
        account = {"data": ["", "base64"], "owner": str(TOKEN_PROGRAM_ID), "lamports": slot}
        return node_result({"context": {"slot": slot}, "value": [account] * len(addresses)})


async def test_balances_are_of_one_slot_or_say_that_they_are_not():
    """Decisions, "shapes of the bulk replies": a list above a hundred takes several questions."""
    body, _ = await asked(SlicedNode(7, 7, 7), "bulk/getBalances", *strangers(250))
    assert body["slot"] == 7 and "slots" not in body
    node = SlicedNode(7, 9, 8)
    body, _ = await asked(node, "bulk/getBalances", *strangers(250))
    assert (body["slot"], body["slots"]) == (None, {"lowest": 7, "highest": 9})
    assert node.least == [0, 0, 0], "nobody asked for more, so nothing is asked again"


async def test_a_monotonic_list_is_asked_again_until_it_is_of_one_slot():
    """Only the older slices, by the slot of the newest; three times at most, and then the answer says what it is."""
    node = SlicedNode(7, 9, 8, 9, 9)
    body, pieces = await under(AccountView(None), asked, node, "bulk/getBalances", *strangers(250))
    assert body["slot"] == 9 and pieces == (250, 250)
    assert {row["lamports"] for row in body["results"]} == {9}
    assert node.least == [0, 0, 0, 9, 9]
    restless = SlicedNode(*range(1, 20))
    body, _ = await under(AccountView(None), asked, restless, "bulk/getBalances", *strangers(250))
    assert body["slot"] is None and body["slots"]["lowest"] < body["slots"]["highest"]
    assert len(restless.least) == 3 + 3 * 2


async def test_a_list_whose_questions_all_failed_is_of_no_slot():
    node = PortedNode(interfere=lambda *_: replies.TIMED_OUT)
    body, _ = await asked(node, "bulk/getBalances", *strangers(150))
    assert body["slot"] is None and "slots" not in body


async def test_too_few_balances_are_no_balances(scene: Scene):
    """An answer with fewer rows than addresses is an error for all of them."""
    node = PortedNode(interfere=lambda *_: node_result({"context": {"slot": 1}, "value": [None]}))
    body, pieces = await asked(node, "bulk/getBalances", *strangers(2))
    assert (body["results"], pieces) == ([], (2, 0))
    assert "could not be understood" in body["errors"][0]["error"]


async def test_a_bulk_answer_names_the_commitment_that_the_node_was_asked_at(scene: Scene):
    """Every question of the list has it: what was confirmed a moment ago is told with `confirmed` alone."""
    mint = scene.mint(6)
    scene.holds(scene.bert, mint, 2_500_000)
    asks = {
        "bulk/getBalances": ("getMultipleAccounts", str(scene.bert.pubkey())),
        "bulk/getTokenBalances": ("getTokenAccountsByOwner", str(scene.bert.pubkey())),
        "bulk/getTransactions": ("getTransaction", "5" * 87),
    }
    for name, (method, item) in asks.items():
        for commitment in ("finalized", "confirmed"):
            node = PortedNode(scene.local)
            body, _ = await asked(node, name, item, commitment=commitment)
            assert body["commitment"] == commitment
            assert {params[-1]["commitment"] for params in node.asked(method)} == {commitment}


async def test_token_balances_of_each_owner(scene: Scene):
    """Decisions: every token account of both programs, empty ones included."""
    mint, empty = scene.mint(6), scene.mint(0)
    scene.holds(scene.bert, mint, 2_500_000)
    scene.holds(scene.bert, empty, 0)
    bert, nobody = str(scene.bert.pubkey()), *strangers(1)
    body, pieces = await asked(PortedNode(scene.local), "bulk/getTokenBalances", bert, nobody)
    assert body["results"][1] == {"owner": nobody, "tokens": []}
    tokens = {row["mint"]: row for row in body["results"][0]["tokens"]}
    assert tokens[str(mint)] == {
        "mint": str(mint),
        "token_account": str(scene.account_of(scene.bert, mint)),
        "program": str(TOKEN_PROGRAM_ID),
        "amount": "2500000",
        "decimals": 6,
        "ui_amount_string": "2.5",
    }
    assert tokens[str(empty)]["amount"] == "0"
    assert (body["errors"], pieces) == ([], (2, 2))


async def test_an_owner_that_fails_fails_alone(scene: Scene):
    """One failed call of its two makes the item an error."""
    bad, good = strangers(2)

    def interfere(method: str, params: list[Any]) -> NodeAnswer | None:
        failing = params[0] == bad and params[1] == {"programId": str(TOKEN_PROGRAM_ID)}
        return node_error(-32010, "excluded") if failing else None

    body, pieces = await asked(PortedNode(scene.local, interfere), "bulk/getTokenBalances", bad, good)
    assert body["errors"] == [{"owner": bad, "error": "the node says: excluded (-32010)"}]
    assert [row["owner"] for row in body["results"]] == [good]
    assert pieces == (2, 1)


async def test_transactions_are_the_nodes_own(scene: Scene):
    """Interface: null when absent, which counts as answered; a look-up that fails does not."""
    made = transfer(TransferParams(from_pubkey=scene.anna.pubkey(), to_pubkey=scene.bert.pubkey(), lamports=10**6))
    there = str(scene.land(scene.anna, made).signature)
    absent, broken = "1" * 64, "5" * 87

    def interfere(method: str, params: list[Any]) -> NodeAnswer | None:
        return replies.UNREACHABLE if params[0] == broken else None

    node = PortedNode(scene.local, interfere)
    body, pieces = await asked(node, "bulk/getTransactions", there, absent, broken)
    config = {"encoding": "json", "commitment": "confirmed", "maxSupportedTransactionVersion": 1}
    assert body["results"] == [
        {"signature": there, "transaction": scene.local.call("getTransaction", there, config)},
        {"signature": absent, "transaction": None},
    ]
    assert body["errors"] == [{"signature": broken, "error": "the node could not be reached"}]
    assert pieces == (3, 2)


async def test_when_all_fail_the_answer_is_all_errors():
    """The request is still answered, at no charge."""
    node = PortedNode(interfere=lambda *_: replies.UNREACHABLE)
    body, pieces = await asked(node, "bulk/getTransactions", "1" * 64, "5" * 87)
    assert (body["results"], len(body["errors"]), pieces) == ([], 2, (2, 0))
