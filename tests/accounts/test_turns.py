from actors.accounts.account import apply
from actors.accounts.core import decide_adjust, decide_hold
from tests.accounts.making import ALICE, hold
from tests.accounts.shards import World, settle_down


async def test_what_is_due_is_taken_first_and_recorded() -> None:
    """Holds past their time end before credits past theirs, so that nothing outlives both."""
    world = World()
    shard = await world.shard()
    await world.customer(shard, ALICE, 100)
    turns, account = shard._turns, shard._accounts[ALICE]
    world.clock.advance(365 * 86_400 - 30)  # The hold outlives the batch by half its life.
    event = decide_hold(account, hold(1, 60), turns.moment()).event
    assert event is not None
    apply(account, event)
    world.clock.advance(30)
    turns.take_due(account, turns.moment())
    assert account.purse.balance == 60
    world.clock.advance(30)
    turns.take_due(account, turns.moment())
    assert (account.purse.balance, account.holds) == (0, {})
    account.check()
    await settle_down()
    assert world.store.rows[ALICE].head.balance == 0
    await shard.stop()


async def test_a_dropped_account_is_not_current() -> None:
    """After an await: what was dropped meanwhile must not be changed any more."""
    world = World()
    shard = await world.shard()
    await world.customer(shard, ALICE, 100)
    turns, account = shard._turns, shard._accounts[ALICE]
    assert turns.is_current(account)
    shard._activations.forget([account])
    assert not turns.is_current(account)
    assert decide_adjust(account, 1, "", b"x", turns.moment()) is not None
    await shard.stop()
