import asyncio

import pytest

from actors.accounts.account import apply
from actors.accounts.admission import decide_hold
from actors.accounts.api import OwnerUnavailable
from actors.accounts.core import decide_adjust
from actors.accounts.stored import Stored
from actors.config import AccountsConfig
from actors.telemetry.metrics import Metrics
from tests.accounts.making import ALICE, BOB, hold, key_proof
from tests.accounts.shards import FailingStore, World, ask, run_ready


class SlowStore(FailingStore):
    """Loads wait for `loading`."""

    def __init__(self) -> None:
        super().__init__()
        self.loading: asyncio.Event | None = None

    async def load(self, pubkey: bytes, since_ms: int) -> Stored | None:
        found = await super().load(pubkey, since_ms)
        if self.loading is not None:
            await self.loading.wait()
        return found


@pytest.fixture
def store() -> SlowStore:
    return SlowStore()


@pytest.fixture
def world(store: SlowStore) -> World:
    return World(store=store)


async def test_a_waiter_who_leaves_does_not_stop_the_load(world: World, store: SlowStore) -> None:
    first = await world.shard()
    await world.customer(first, ALICE, 10)
    shard = await world.shard()
    store.loading, store.loads = asyncio.Event(), 0
    leaving = asyncio.ensure_future(shard._activations.load(ALICE))
    staying = asyncio.ensure_future(shard._activations.load(ALICE))
    await run_ready()
    leaving.cancel()
    store.loading.set()
    account = await staying
    assert account is not None and account is await shard._activations.load(ALICE)
    assert store.loads == 1
    await shard.stop()


async def test_what_was_read_before_a_failed_commit_is_not_used(world: World, store: SlowStore) -> None:
    """A write whose end was unknown when the account was read may be in the ledger now."""
    first = await world.shard()
    await world.customer(first, ALICE, 10)
    shard = await world.shard()
    store.loading = asyncio.Event()
    loading = asyncio.ensure_future(shard._activations.load(ALICE))
    await run_ready()
    store.away = True
    beat = asyncio.ensure_future(shard._commits.beat())
    await run_ready()
    store.away = False
    await world.pauses.end()
    await beat
    store.loading.set()
    with pytest.raises(OwnerUnavailable):
        await loading
    assert await shard._activations.load(ALICE) is not None
    await shard.stop()


async def test_nothing_is_loaded_while_the_ledger_does_not_commit(world: World, store: SlowStore) -> None:
    first = await world.shard()
    await world.customer(first, ALICE, 10)
    shard = await world.shard()
    shard._commits.open = False
    with pytest.raises(OwnerUnavailable):
        await shard._activations.load(ALICE)
    peeked = await shard._activations.peek(ALICE)
    assert peeked is not None and peeked.purse.balance == 10
    assert shard._accounts == {}
    shard._commits.open = True
    await shard.stop()


async def test_an_account_that_contradicts_itself_is_halted_alone(world: World, store: SlowStore) -> None:
    """Threat 20: a flip halts that account; others go on."""
    first = await world.shard()
    for pubkey in (ALICE, BOB):
        await world.customer(first, pubkey, 10)
    row = store.rows[ALICE]
    row.head = row.head._replace(balance=11)
    shard = await world.shard()
    with pytest.raises(OwnerUnavailable, match="halted"):
        await shard._activations.load(ALICE)
    assert await shard._activations.load(BOB) is not None
    await shard.stop()


async def test_a_load_that_fails_is_tried_again_by_the_next_caller(world: World, store: SlowStore) -> None:
    first = await world.shard()
    await world.customer(first, ALICE, 10)
    shard = await world.shard()
    store.away = True
    for _ in range(2):
        with pytest.raises(OwnerUnavailable):
            await shard._activations.load(ALICE)
    store.away = False
    assert await shard._activations.load(ALICE) is not None
    await shard.stop()


async def test_no_such_account_is_forgotten_again(world: World, store: SlowStore) -> None:
    shard = await world.shard()
    for _ in range(3):
        assert await shard._activations.load(BOB) is None
        assert await shard._activations.load_by_key(key_proof(BOB).key_hash) is None
    assert store.loads == 1
    world.clock.advance(20)
    assert await shard._activations.load(BOB) is None
    assert store.loads == 2
    await shard.stop()


async def test_remembering_the_unknown_can_be_switched_off(world: World, store: SlowStore) -> None:
    world.config = AccountsConfig(unknown_seconds=0)
    shard = await world.shard()
    for _ in range(3):
        assert await shard._activations.load(BOB) is None
    assert store.loads == 3
    await shard.stop()


async def test_accounts_and_holds_in_memory_are_counted_when_asked(world: World) -> None:
    """Figures for operators, which cost nothing between two reports."""
    shard, metrics = await world.shard(), Metrics()
    shard._activations.report_to(metrics)
    proof = await world.customer(shard, ALICE, 100)
    await ask(shard.hold_now, hold(1, 10, 10, proof=proof))
    samples = [sample for family in metrics.families() for sample in family.samples]
    found = {sample.name: sample.value for sample in samples}
    assert (found["ledger_gateway_accounts_in_memory"], found["ledger_gateway_holds"]) == (1, 2)
    await shard.stop()


async def test_holds_and_credits_past_their_time_end_and_are_recorded() -> None:
    """Holds past their time end before credits past theirs, so that nothing outlives both."""
    world = World()
    shard = await world.shard()
    await world.customer(shard, ALICE, 100)
    accounts, account = shard._activations, shard._accounts[ALICE]
    world.clock.advance(365 * 86_400 - 30)  # The hold outlives the batch by half its life.
    event = decide_hold(account, hold(1, 60), accounts.moment()).event
    assert event is not None
    apply(account, event)
    world.clock.advance(30)
    accounts.end_due(account, accounts.moment())
    assert account.purse.balance == 60
    world.clock.advance(30)
    accounts.end_due(account, accounts.moment())
    assert (account.purse.balance, account.holds) == (0, {})
    account.check()
    await run_ready()
    assert world.store.rows[ALICE].head.balance == 0
    await shard.stop()


async def test_a_dropped_account_is_not_current() -> None:
    """After an await: what was dropped meanwhile must not be changed any more."""
    world = World()
    shard = await world.shard()
    await world.customer(shard, ALICE, 100)
    accounts, account = shard._activations, shard._accounts[ALICE]
    assert accounts.is_current(account)
    shard._activations.forget([account])
    assert not accounts.is_current(account)
    assert decide_adjust(account, 1, "", b"x", accounts.moment()) is not None
    await shard.stop()
