"""What several nodes tell of one signature, and what an auditor gets of a key that has paid for much."""

from pathlib import Path
from typing import Any

import pytest

from actors.memos import chain as chain_module
from actors.memos.chain import MemoChain, NoAnswer
from actors.memos.core import Look, Root, make_transaction, roots_of
from actors.upstream.replies import AnswerKind, NodeAnswer
from tests.memos.world import World, digest
from tests.ported_node import PortedNode, node_error, node_result


def node(height: int | None, row: dict[str, Any] | None, *, has_history: bool = True) -> PortedNode:
    def answer(method: str, params: list[Any]) -> NodeAnswer:
        if method == "getBlockHeight":
            return NodeAnswer(AnswerKind.TIMED_OUT) if height is None else node_result(height)
        assert params[1] == {"searchTransactionHistory": True}
        if not has_history:
            return node_error(-32011, "Transaction history is not available from this node")
        return node_result({"context": {"slot": 1}, "value": [row]})

    return PortedNode(interfere=answer)


LANDED = {"slot": 4, "err": None, "confirmations": None, "confirmationStatus": "finalized"}


async def look(*nodes: PortedNode) -> Look:
    return await MemoChain(nodes[0], nodes).look(b"s" * 64)


async def test_a_signature_is_gone_only_by_a_node_that_could_know_it() -> None:
    assert await look(node(50, None), node(60, None)) == Look(None, 60)
    assert await look(node(None, None)) == Look(None, None)
    assert await look(node(99, None, has_history=False)) == Look(None, None)
    assert await look(node(99, None, has_history=False), node(40, None)) == Look(None, 40)
    seen = await look(node(99, None), node(40, LANDED))
    assert seen.status is not None and seen.status.finalized


async def test_the_height_is_asked_before_the_signature() -> None:
    asked = node(5, None)
    await look(asked)
    assert [method for method, *_ in asked.calls] == ["getBlockHeight", "getSignatureStatuses"]


async def test_a_node_that_says_nothing_sensible_says_nothing() -> None:
    for answer in (node_result(None), node_result({"value": {}}), node_result([]), node_error(-32603, "no")):
        mute = MemoChain(PortedNode(interfere=lambda method, params, told=answer: told))
        assert await mute.blockhash() is None and await mute.fee(b"s") is None and await mute.lamports("x") is None
        assert await mute.look(b"s" * 64) == Look(None, None)


async def test_all_that_a_key_has_paid_for_is_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Page by page, the newest first; what failed, and what has no memo, is left out."""
    monkeypatch.setattr(chain_module, "_PAGE", 3)
    monkeypatch.setattr(chain_module, "_AT_ONCE", 2)
    world = World(tmp_path)
    for number in range(1, 8):
        _, raw = make_transaction(world.payer, Root(0, number, digest(number)), str(world.local.blockhash()), 0)
        assert await MemoChain(world.node).send(raw) is None
        world.local.beat()
        if number == 4:
            world.local.land(world.local.transfer(world.payer, world.payer.pubkey(), 1))
    world.local.finalize()
    paid = [one async for one in MemoChain(world.node).paid_by(world.address)]
    numbers = [root.number for one in paid for root in roots_of(one.transaction, world.address)]
    assert numbers == [7, 6, 5, 4, 3, 2, 1] and {one.fee for one in paid} == {5_000}
    assert all(one.block_seconds > 0 and one.slot > 0 for one in paid)


async def test_an_auditor_is_told_which_question_has_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chain_module, "_PAUSE_SECONDS", 0)
    world = World(tmp_path)
    refusing = iter([node_error(-32005, "later"), None, node_error(-32005, "later")])
    world.interfere = lambda method, params: next(refusing, None)
    assert [one async for one in MemoChain(world.node).paid_by(world.address)] == []
    world.interfere = lambda method, params: node_error(-32005, "too many")
    with pytest.raises(NoAnswer, match=r"getSignaturesForAddress \(too many\)"):
        _ = [one async for one in MemoChain(world.node).paid_by(world.address)]
    row = {"signature": "5" * 88, "err": None, "memo": "[1] x", "slot": 1, "blockTime": 1}
    world.interfere = lambda method, params: node_result([row] if method == "getSignaturesForAddress" else None)
    with pytest.raises(NoAnswer, match="which it lists"):
        _ = [one async for one in MemoChain(world.node).paid_by(world.address)]
