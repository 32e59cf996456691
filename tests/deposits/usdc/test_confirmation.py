"""A customer reports a deposit, which is handled as the watcher does."""

import asyncio

import pytest

from actors.deposits.usdc.confirmation import LOOKS_MAX
from actors.deposits.usdc.core import FindingStatus, Part
from actors.errors import Err, Refusal
from tests.deposits.memory_stores import MemoryDepositStore
from tests.deposits.world import ACCOUNT, World, key_of

ALICE, BOB = key_of("alice"), key_of("bob")


@pytest.fixture
def world() -> World:
    return World(MemoryDepositStore())


async def test_the_first_look_credits_and_the_second_asks_nobody(world: World) -> None:
    sent = world.chain.pay(("alice", 10_000), ("alice", 20_000))
    confirming = world.confirming()
    assert await confirming.confirm(sent.signature) == ((Part(ALICE, 3_000, 3_000),), True)
    world.chain.calls.clear()
    outcome, _ = await confirming.confirm(sent.signature)
    assert outcome == (Part(ALICE, 0, None), Part(ALICE, 0, None)) and world.chain.calls == []


async def test_every_authority_of_a_transaction_is_credited(world: World) -> None:
    """The credits go to the sender, whoever reports the transaction."""
    sent = world.chain.pay(("alice", 10_000), ("bob", 20_000))
    outcome, _ = await world.confirming().confirm(sent.signature)
    assert outcome == (Part(ALICE, 1_000, 1_000), Part(BOB, 2_000, 2_000))


@pytest.mark.threat(22)
async def test_many_at_once_are_one_look(world: World) -> None:
    sent = world.chain.pay(("alice", 10_000))
    confirming, watcher = world.confirming(), world.watcher()
    *answers, _ = await asyncio.gather(*(confirming.confirm(sent.signature) for _ in range(50)), watcher.round())
    assert world.accounts.balances == {ALICE: 1_000}
    assert sum(looked for _, looked in answers) == 1
    assert world.chain.calls.count("getTransaction") <= 2  # One of these, one of the watcher's.


async def test_what_was_confirmed_the_watcher_does_not_read_again(world: World) -> None:
    sent = world.chain.pay(("alice", 10_000))
    watcher = world.watcher()
    await watcher.list_new()
    await world.confirming(watcher).confirm(sent.signature)
    world.chain.calls.clear()
    await watcher.round()
    assert "getTransaction" not in world.chain.calls


async def test_a_listed_one_says_why_and_is_kept(world: World) -> None:
    sent = world.chain.pay(("alice", 9_999))
    for _ in range(2):
        outcome, _ = await world.confirming().confirm(sent.signature)
        assert isinstance(outcome, Refusal) and "below the minimum" in outcome.detail
    (row,) = await world.store.find(ACCOUNT.address, sent.signature)
    assert row.status is FindingStatus.LISTED


async def test_an_assigned_one_is_its_accounts(world: World) -> None:
    sent = world.chain.pay(("vault", 50_000), signed=False)
    watcher = world.watcher()
    await watcher.round()
    (listed,) = await world.store.find(ACCOUNT.address, sent.signature)
    await watcher.assign(listed, BOB, "proved it")
    assert (await world.confirming().confirm(sent.signature))[0] == (Part(BOB, 0, None),)


@pytest.mark.parametrize("what", ["chain", "accounts"])
async def test_whoever_is_away_makes_it_503_and_later_it_is_credited(world: World, what: str) -> None:
    sent = world.chain.pay(("alice", 10_000))
    confirming = world.confirming()
    getattr(world, what).away = True
    outcome, _ = await confirming.confirm(sent.signature)
    assert isinstance(outcome, Refusal) and outcome.err is Err.SERVICE_TEMPORARILY_UNAVAILABLE
    getattr(world, what).away = False
    assert (await confirming.confirm(sent.signature))[0] == (Part(ALICE, 1_000, 1_000),)


async def test_a_flood_of_signatures_is_bounded(world: World) -> None:
    confirming = world.confirming()
    sent = [world.chain.make(("alice", 10_000)) for _ in range(LOOKS_MAX + 5)]
    answers = await asyncio.gather(*(confirming.confirm(each.signature) for each in sent))
    shed = [
        outcome
        for outcome, _ in answers
        if isinstance(outcome, Refusal) and outcome.err is Err.SERVICE_TEMPORARILY_UNAVAILABLE
    ]
    assert len(shed) == 5
    assert isinstance((await confirming.confirm(sent[0].signature))[0], Refusal)


async def test_a_caller_who_leaves_stops_nobody_elses_look(world: World) -> None:
    sent = world.chain.pay(("alice", 10_000))
    confirming = world.confirming()
    first = asyncio.create_task(confirming.confirm(sent.signature))
    await asyncio.sleep(0)
    second = asyncio.create_task(confirming.confirm(sent.signature))
    await asyncio.sleep(0)
    first.cancel()
    outcome, looked = await second
    assert outcome == (Part(ALICE, 0, 1_000),) and not looked
    assert world.accounts.balances == {ALICE: 1_000}
