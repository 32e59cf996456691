"""Guards commands on operations: held before the work, charged once for ever after it, also by a successor."""

import asyncio

import pytest

from actors.accounts.actor import AccountShard
from actors.accounts.api import AdjustCredits, SetStatus
from actors.accounts.operations import ChargeOperations, HoldOperations
from actors.accounts.price_list_commands import SetPriceList
from actors.calls import OTHER_PRICES
from tests.accounts.making import ALICE, BOB
from tests.accounts.shards import World

NAMES = tuple(bytes([number]) * 16 for number in range(5))


async def held(shard: AccountShard, *names: bytes) -> tuple[bool, ...] | str | None:
    reply = await shard.ask(HoldOperations(ALICE, names, 1))
    return reply.refusal or reply.value


async def charged(
    shard: AccountShard, *names: bytes, released: tuple[bytes, ...] = ()
) -> tuple[bool, ...] | str | None:
    reply = await shard.ask(ChargeOperations(ALICE, names, "work", 1, released))
    return reply.refusal or reply.value


async def test_what_is_held_cannot_be_spent_elsewhere_and_is_charged_once(world: World, shard: AccountShard) -> None:
    """Money rule 1: a credit that is held for work is there when the work is done."""
    await world.customer(shard, ALICE, 3)
    assert await held(shard, *NAMES) == (True, True, True, False, False)
    assert (await shard.ask(AdjustCredits(ALICE, -3, "spent", "spent"))).refusal == "INSUFFICIENT_CREDITS"
    assert await charged(shard, *NAMES[:2], released=NAMES[2:3]) == (True, True)
    assert (await shard.ask(AdjustCredits(ALICE, -3, "spent", "again"))).value.amount == -1  # type: ignore[union-attr]
    assert await charged(shard, *NAMES) == (True, True, False, False, False)
    entries = await world.store.entries(ALICE, 0, 10, True)
    assert [(entry.method, entry.amount) for entry in entries] == [("work", -1)] * 2


async def test_work_that_was_charged_long_ago_is_not_held_and_needs_a_balance(
    world: World, shard: AccountShard
) -> None:
    """A hold of it would be posted a second time, and the database would refuse the group with everybody in it."""
    await world.customer(shard, ALICE, 2)
    assert await charged(shard, NAMES[0]) == (True,)
    successor = await world.shard()
    assert await held(successor, NAMES[0], NAMES[1]) == (True, True)
    epoch = (await successor.health())["epoch"]
    assert await charged(successor, *NAMES[:2]) == (True, True)
    assert await held(successor, NAMES[0]) == (False,) and (await successor.health())["epoch"] == epoch
    assert len(await world.store.entries(ALICE, 0, 10, True)) == 2
    await successor.stop()


async def test_who_may_have_nothing_done_holds_nothing(world: World, shard: AccountShard) -> None:
    await world.customer(shard, ALICE, 3)
    assert await held(shard, NAMES[0]) == (True,)
    await shard.ask(SetStatus(ALICE, "suspended", "abuse"))
    assert await held(shard, NAMES[1]) == "METHOD_NOT_ALLOWED" == await charged(shard, NAMES[1])
    assert await charged(shard, *NAMES[:2]) == (True, False), "what was done before is paid"
    assert (await shard.ask(HoldOperations(BOB, NAMES, 1))).refusal == "ACCOUNT_NOT_FOUND"
    assert await held(shard, b"short") == "INVALID_REQUEST"


async def test_work_at_other_prices_is_not_held(world: World, shard: AccountShard) -> None:
    """Decisions, "Price lists": the sender hears the account's list, and asks again with its prices."""
    await world.customer(shard, ALICE, 3)
    await shard.ask(SetPriceList(ALICE, "wholesale"))
    refused = await shard.ask(HoldOperations(ALICE, NAMES[:1], 1))
    assert (refused.refusal, refused.detail, refused.value) == (OTHER_PRICES, "wholesale", None)
    assert (await shard.ask(AdjustCredits(ALICE, -3, "spent", "spent"))).refusal is None, "nothing is held"
    assert (await shard.ask(HoldOperations(ALICE, NAMES[:1], 1, "wholesale"))).value == (False,)


async def test_work_that_was_given_up_gives_its_hold_back(world: World, shard: AccountShard) -> None:
    """Also where no other work is charged with it, and for an account that may have nothing more done."""
    await world.customer(shard, ALICE, 3)
    assert await held(shard, *NAMES[:3]) == (True, True, True)
    await shard.ask(SetStatus(ALICE, "suspended", "abuse"))
    assert await charged(shard, released=NAMES[:3]) == ()
    assert (await shard.ask(AdjustCredits(ALICE, -3, "spent", "spent"))).refusal is None


async def test_a_ledger_that_does_not_commit_holds_nothing(
    world: World, shard: AccountShard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Money rule 9."""
    await world.customer(shard, ALICE, 3)
    monkeypatch.setattr(shard._commits, "admits", lambda steady: False)
    assert await held(shard, NAMES[0]) == "SERVICE_TEMPORARILY_UNAVAILABLE"


async def test_many_who_ask_at_once_hold_no_more_than_there_is(world: World, shard: AccountShard) -> None:
    await world.customer(shard, ALICE, 3)
    replies = await asyncio.gather(*(held(shard, name) for name in NAMES))
    assert sorted(replies, key=str) == [(False,)] * 2 + [(True,)] * 3
