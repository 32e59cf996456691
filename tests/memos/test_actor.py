"""One memo for each series and hour, whoever sends it and whatever fails, on a chain that runs the memo program.

Rules: decisions, "Signed roots" (memos on the chain).
"""

import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from actors.accounts.proven_roots import ProvenRoot
from actors.memos.core import fee_lamports
from actors.memos.store import PostgresMemoStore
from actors.upstream.replies import AnswerKind, NodeAnswer
from tests.databases import emptied
from tests.memos.world import HOUR, World, digest
from tests.ported_node import node_result

WANTED = [f"ledger-gateway root 0 3 {digest(3).hex()}", f"ledger-gateway root 1 9 {digest(9).hex()}"]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.fixture(params=["memory", "postgres"])
async def either(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    """A world with each of the stores."""
    if request.param == "memory":
        yield World(tmp_path)
        return
    urls = [request.getfixturevalue(name) for name in ("postgres_url", "owner_url")]
    async with emptied(*urls, "TRUNCATE root_memos", connections_max=4) as pool:
        yield World(tmp_path, PostgresMemoStore(pool))


async def test_each_series_has_one_memo_an_hour(either: World) -> None:
    """Which is on the chain as it says, paid for by the key, and told of."""
    world, sender = either, either.sender()
    for _ in range(4):
        await sender.tick()
        world.local.finalize()
    assert world.memos() == WANTED
    assert world.counted("landed") == 2 and world.charged == 2 * fee_lamports(10_000) == 11_200
    assert sender.lamports == 10**9 and sender.fault == ""
    spent = 10**9 - world.local.call("getBalance", world.address)["value"]
    assert spent == 11_200


async def test_the_next_hour_has_the_next_memo_where_something_is_new(world: World) -> None:
    sender = world.sender()
    for hour in range(3):
        world.store.now = HOUR + hour
        if hour:
            world.roots.given[1] = ProvenRoot(1, 20 + hour, digest(20 + hour))
        for _ in range(3):
            await sender.tick()
            world.local.finalize()
    assert world.memos() == [*WANTED, *(f"ledger-gateway root 1 {n} {digest(n).hex()}" for n in (21, 22))]


async def test_a_restart_sends_nothing_again(either: World) -> None:
    """Killed after each step: before the send, after it, before and after it was seen to land."""
    world = either
    for _ in range(6):
        await world.sender().tick()
        world.local.beat(2)
    assert world.memos() == WANTED


async def test_two_senders_at_once_send_one_memo(either: World) -> None:
    """Both see that one is due, with blockhashes of their own; the database lets one of them send it."""
    world, senders = either, [either.sender(), either.sender()]
    for sender in senders:
        await sender._begin(await world.store.hour())
    stale = await world.store.under_way()
    for sender in senders:
        for memo in stale:
            await sender._go_on(memo, is_over=False)
        world.local.beat()
    for _ in range(3):
        for sender in senders:
            await sender.tick()
        world.local.finalize()
    assert world.memos() == WANTED and world.counted("landed") == 2


async def test_a_send_that_is_lost_is_sent_again_and_then_anew(world: World) -> None:
    """The same bytes while they can land; a fresh blockhash once they cannot, and not before."""
    lost: list[Any] = []

    def lose(method: str, params: list[Any]) -> NodeAnswer | None:
        if method != "sendTransaction":
            return None
        lost.append(params[0])
        return NodeAnswer(AnswerKind.TIMED_OUT)

    world.roots.given = world.roots.given[:1]
    world.interfere, sender = lose, world.sender()
    for _ in range(3):
        await sender.tick()
        world.local.beat(2)
    assert len(lost) == 3 and len(set(lost)) == 1
    world.expire()
    await sender.tick()
    assert len(lost) == 4 and len(set(lost)) == 2
    world.interfere = lambda method, params: None
    for _ in range(3):
        await sender.tick()
        world.local.finalize()
    assert world.memos() == WANTED[:1] and world.counted("landed") == 1


async def test_a_memo_that_landed_unseen_is_not_sent_anew(world: World) -> None:
    """The answer to the send was lost, and the nodes do not answer until its blockhash has ended."""
    world.roots.given = world.roots.given[:1]

    def deaf(method: str, params: list[Any]) -> NodeAnswer | None:
        if method == "sendTransaction":
            world.local.call(method, *params)
        is_asked = method in ("sendTransaction", "getSignatureStatuses")
        return NodeAnswer(AnswerKind.TIMED_OUT) if is_asked else None

    world.interfere, sender = deaf, world.sender()
    await sender.tick()
    world.expire()
    for _ in range(3):
        await sender.tick()
    world.interfere = lambda method, params: None
    await sender.tick()
    world.local.finalize()
    await sender.tick()
    assert world.memos() == WANTED[:1] and world.counted("landed") == 1


async def test_an_hour_that_is_over_is_given_up(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """It is followed for as long as it can land, and the next hour has its own."""
    world.roots.given = world.roots.given[:1]
    world.interfere = lambda method, params: NodeAnswer(AnswerKind.TIMED_OUT) if method == "sendTransaction" else None
    sender = world.sender()
    await sender.tick()
    world.store.now += 1
    world.interfere = lambda method, params: None
    await sender.tick()
    assert world.memos() == [], "the memo of the hour before may land yet: nothing is sent for that hour"
    world.expire()
    world.roots.given = [ProvenRoot(0, 4, digest(4))]
    for _ in range(3):
        await sender.tick()
        world.local.finalize()
    assert world.memos() == [f"ledger-gateway root 0 4 {digest(4).hex()}"]
    assert world.counted("lost") == 1 and "is not on the chain" in caplog.text


async def test_a_key_without_money_is_told_and_costs_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Each refusal counts; when it has money, the same hour's memo is sent."""
    world = World(tmp_path, lamports=0)
    world.roots.given = world.roots.given[:1]
    sender = world.sender()
    await sender.tick()
    assert "has 0 lamports" in caplog.text and world.counted("refused") == 1 and "refused" in caplog.text
    world.local.faucet.fund(world.payer.pubkey(), 10**8, 0)
    world.local.finalize()
    for _ in range(3):
        await sender.tick()
        world.local.finalize()
    assert world.memos() == WANTED[:1]


async def test_a_memo_that_fails_on_the_chain_is_paid_twice_at_most(world: World) -> None:
    """Whoever has broken it: two charges for a series and hour, and no third."""
    world.roots.given = world.roots.given[:1]

    def failed(method: str, params: list[Any]) -> NodeAnswer | None:
        if method != "getSignatureStatuses":
            return None
        row = {"slot": 5, "err": {"InstructionError": [2, "InvalidInstructionData"]}, "confirmations": None}
        return node_result({"context": {"slot": 9}, "value": [{**row, "confirmationStatus": "finalized"}]})

    world.interfere, sender = failed, world.sender()
    for _ in range(8):
        await sender.tick()
        world.local.finalize()
    assert world.counted("failed") == 2 and world.counted("lost") == 1
    assert len(world.node.asked("sendTransaction")) == 2


async def test_a_database_that_is_away_holds_memos_up_and_no_more(world: World) -> None:
    sender = world.sender()
    world.store.fails = True
    await sender.tick()
    assert "nobody listens" in sender.fault and world.memos() == []
    world.store.fails = False
    await sender.tick()
    world.local.finalize()
    assert sender.fault == "" and len(world.memos()) == 2


async def test_what_memos_can_cost_is_said_at_the_start(world: World, caplog: pytest.LogCaptureFixture) -> None:
    async def never(seconds: float) -> None:
        raise AssertionError("one turn is enough")

    caplog.set_level(logging.INFO)
    sender = world.sender()
    sender._sleep = never
    sender.start()
    assert "11200 lamports a series and hour at most" in caplog.text and world.address in caplog.text
    await sender.stop()
    assert bytes(world.payer).hex() not in caplog.text and str(world.payer) not in caplog.text
