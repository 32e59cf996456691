"""What accounts spend in an hour is learnt from the rollup: by both stores, after a kill, in bounded pieces.

Rule: decisions, "Hourly limit".
"""

import pytest

from actors.accounts import hour_learning
from actors.accounts.actor import AccountShard
from actors.accounts.hourly_commands import ChangeHourlyLimit, ReadHourlyLimit
from actors.accounts.hourly_limit import BegunHour, HourlyLimitSet, HourlySetting
from actors.accounts.store import AccountStore
from actors.config import AccountsConfig
from actors.errors import Err
from actors.events import CreditsAnomaly
from tests.accounts.making import ALICE, BOB, group_of, hold, pubkey_of, settle
from tests.accounts.shards import World, ask
from tests.accounts.test_store import SHARDS, debits, opened_in
from tests.accounts.test_usage import HOUR

STOPPED = Err.HOURLY_LIMIT_EXCEEDED.name


async def test_both_stores_tell_hours_and_keep_limits(store: AccountStore) -> None:
    """Rolled up or not; and keep the wallet's choice, and when an hour began."""
    epoch = await store.take_over("a", SHARDS, False)
    account = await opened_in(store, epoch)
    await opened_in(store, epoch, BOB)
    await store.write(epoch, debits(account, 5))
    await store.usage.roll(ALICE, 4)
    for _ in range(2):
        found = await store.usage.hours([ALICE, BOB, b"c" * 32], HOUR - 5, HOUR + 1)
        assert found == {ALICE: {HOUR: 5}, BOB: {}, b"c" * 32: {}}
        assert await store.usage.hours([ALICE], HOUR + 1, HOUR + 2) == {ALICE: {}}
        await store.usage.roll(ALICE, 100)
    for setting in (HourlySetting(7, 5), HourlySetting(None, 9)):
        await store.write(epoch, group_of(account, HourlyLimitSet(setting)))
        stored = await store.load(ALICE, 0)
        assert stored is not None and stored.hourly == setting and stored.hour == BegunHour(HOUR, 0, None)


async def test_a_limit_holds_after_the_owner_was_replaced(world: World, shard: AccountShard) -> None:
    """The tables say what the account had consumed when the hour began: not one credit more gets through."""
    proof = await world.customer(shard, ALICE, 100)
    assert (await shard.ask(ChangeHourlyLimit(ALICE, 10))).refusal is None
    await ask(shard.hold_now, hold(1, 8, proof=proof))
    await ask(shard.settle_now, settle(1, 8))
    successor = await world.shard()
    assert (await ask(successor.hold_now, hold(3, 3, proof=proof))).verdicts == (STOPPED,)
    assert (await ask(successor.hold_now, hold(4, 2, proof=proof))).verdicts == (None,)
    await successor.stop()


async def test_slowing_and_stopping_are_told_once_in_each_hour(world: World, shard: AccountShard) -> None:
    """`credits.anomaly`, written with the debit that crossed the half, and with the first refusal."""
    proof = await world.customer(shard, ALICE, 1_000)
    await shard.ask(ChangeHourlyLimit(ALICE, 10))
    for number, credits in enumerate((4, 1, 1, 4, 1, 1), 1):
        held = await ask(shard.hold_now, hold(number, credits, proof=proof))
        if held.verdicts == (None,):
            await ask(shard.settle_now, settle(number, credits))
    await shard.ask(ReadHourlyLimit(ALICE))  # Answered when all that was decided before is durable.
    told = [event for event in world.store.outbox.events if isinstance(event, CreditsAnomaly)]
    assert [(event.stage, event.spent, event.credits_an_hour, event.basis) for event in told] == [
        ("slowed", 5, 10, "set"),
        ("stopped", 10, 10, "set"),
    ]
    world.clock.advance(3_600)
    await ask(shard.hold_now, hold(10, 11, proof=proof))
    await ask(shard.hold_now, hold(11, 11, proof=proof))
    await shard.ask(ReadHourlyLimit(ALICE))
    told = [event for event in world.store.outbox.events if isinstance(event, CreditsAnomaly)]
    assert [event.stage for event in told] == ["slowed", "stopped", "stopped"]


async def test_many_accounts_are_asked_about_in_pieces(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many there are; and in each hour those that have spent since."""
    monkeypatch.setattr(hour_learning, "ASKED_AT_ONCE_MAX", 2)
    world.config = AccountsConfig(idle_seconds=7_200)
    shard = await world.shard()
    names = [pubkey_of(f"customer {number}") for number in range(5)]
    proofs = {pubkey: await world.customer(shard, pubkey, 100) for pubkey in names}
    accounts = {pubkey: shard._accounts[pubkey] for pubkey in names}

    def known(hour: int) -> list[bool]:
        learnt = (account.hourly.learnt for account in accounts.values())
        return [found is not None and found.hour == hour for found in learnt]

    hour = world.clock.now() // 3_600
    for count in (2, 4, 5, 5):
        await shard.tick()
        assert sum(known(hour)) == count
    await ask(shard.hold_now, hold(1, 8, proof=proofs[names[3]]))
    await ask(shard.settle_now, settle(1, 8, pubkey=names[3]))
    world.clock.advance(3_600)
    await shard.tick()
    assert known(hour + 1) == [False, False, False, True, False]
    assert accounts[names[3]].hourly.learnt is not None and accounts[names[3]].hourly.learnt.in_day == 8
    await shard.stop()


async def test_a_store_that_is_away_is_asked_again(world: World, shard: AccountShard) -> None:
    await world.customer(shard, ALICE, 100)
    account, hours = shard._accounts[ALICE], world.store.usage.hours

    async def away(*asked: object) -> dict[bytes, object]:
        raise hour_learning.StoreUnavailable

    world.store.usage.hours = away  # type: ignore[method-assign, assignment]
    await shard.tick()
    assert account.hourly.learnt is None
    world.store.usage.hours = hours  # type: ignore[method-assign]
    await shard.tick()
    assert account.hourly.learnt is not None
