"""The commands on the hourly limit of an account. Rule: decisions, "Hourly limit"."""

from actors.accounts.actor import AccountShard
from actors.accounts.hourly_commands import ChangeHourlyLimit, HourlyState, ReadHourlyLimit
from actors.accounts.hourly_limit import LIFT_SECONDS_MAX, NONE_SET, HourlySetting
from actors.errors import Err
from tests.accounts.making import ALICE, BOB, hold, settle
from tests.accounts.shards import World, ask


async def test_a_limit_is_shown_changed_and_lifted(world: World, shard: AccountShard) -> None:
    """Durable when the reply arrives; what is not named stays."""
    proof = await world.customer(shard, ALICE, 100)
    now = world.clock.now()
    ends_at = now // 3_600 * 3_600 + 3_600
    shown = await shard.ask(ReadHourlyLimit(ALICE))
    assert shown.value == HourlyState(HourlySetting(), None, "learnt", None, 0, "normal", ends_at)
    changed = await shard.ask(ChangeHourlyLimit(ALICE, 10))
    assert changed.value == HourlyState(HourlySetting(10), 10, "set", None, 0, "normal", ends_at)
    assert world.store.rows[ALICE].hourly == HourlySetting(10)
    await ask(shard.hold_now, hold(1, 6, proof=proof))
    await ask(shard.settle_now, settle(1, 6))
    lifted = await shard.ask(ChangeHourlyLimit(ALICE, lift_seconds=60))
    assert lifted.value == HourlyState(HourlySetting(10, now + 60), 10, "set", None, 6, "lifted", ends_at)
    assert world.store.rows[ALICE].hourly == HourlySetting(10, now + 60)
    world.clock.advance(60)
    assert (await shard.ask(ReadHourlyLimit(ALICE))).value.stage == "slowed"  # type: ignore[union-attr]
    gone = await shard.ask(ChangeHourlyLimit(ALICE, NONE_SET, 0))
    assert gone.value is not None and (gone.value.credits, gone.value.stage) == (None, "normal")


async def test_what_cannot_be_is_refused(world: World, shard: AccountShard) -> None:
    await world.customer(shard, ALICE, 100)
    for command in (
        ChangeHourlyLimit(ALICE, -1),
        ChangeHourlyLimit(ALICE, 10**16),
        ChangeHourlyLimit(ALICE, lift_seconds=-1),
        ChangeHourlyLimit(ALICE, lift_seconds=LIFT_SECONDS_MAX + 1),
    ):
        assert (await shard.ask(command)).refusal == Err.INVALID_REQUEST.name
    assert (await shard.ask(ReadHourlyLimit(BOB))).refusal == Err.ACCOUNT_NOT_FOUND.name
    assert world.store.rows[ALICE].hourly == HourlySetting()
