"""An owner whose process's wall clock is set for one tick (threat 53): nothing that cannot be undone happens."""

import pytest
import redis.asyncio

from actors.accounts.actor import AccountShard
from actors.accounts.api import AdjustCredits, CreditDeposit, OpenSession, PaidTransfer, ReadAccount
from actors.accounts.ledger import EntryType
from actors.accounts.ledger_clock import LedgerClock
from actors.accounts.ledger_time import SETTLING_MS
from actors.calls import SessionProof
from actors.events import CreditsExpiring
from actors.identity.credentials import token_hash
from actors.identity.store import RedisIdentityStore
from actors.units import routing_bytes
from tests.accounts.making import ALICE, BOB, hold, settle
from tests.accounts.shards import WallClock, World, ask, run_ready

DAY = 86_400
JUMPS = [DAY, 400 * DAY, -DAY, -400 * DAY]
every_jump = pytest.mark.parametrize("jump", JUMPS)


class Host:
    """A process that has run for a while, in a world whose database knows the true time."""

    def __init__(self) -> None:
        self.world = World()
        self.clock = WallClock(self.world.clock)
        self.shard: AccountShard

    async def start(self) -> "Host":
        self.shard = await self.world.shard(self.clock)
        self.world.clock.advance(2 * SETTLING_MS / 1000)
        await self.tick()
        return self

    async def tick(self) -> None:
        """One second, at the end of which the database was asked and the owner did its regular work."""
        self.world.clock.advance(1)
        await self.shard._commits.beat()
        await self.shard.tick()
        await run_ready()

    async def jump(self, seconds: int) -> None:
        self.clock.ahead_seconds = seconds
        await self.tick()
        self.clock.ahead_seconds = 0

    def types(self, pubkey: bytes) -> list[int]:
        return [entry.type for entry, _ in self.world.store.rows[pubkey].entries]


@every_jump
async def test_no_batch_expires_because_one_clock_jumped(jump: int) -> None:
    """Of an account in memory that is used at that moment, and of one that nobody asks for."""
    host = await Host().start()
    proof = await host.world.customer(host.shard, ALICE, 1_000)
    await host.shard.ask(AdjustCredits(BOB, 1_000, "opening", "of bob"))
    host.shard._activations.forget([host.shard._accounts[BOB]])
    host.clock.ahead_seconds = jump
    assert (await ask(host.shard.hold_now, hold(1, 5, proof=proof))).verdicts == (None,)
    assert (await ask(host.shard.settle_now, settle(1, 5))).ok
    await host.jump(jump)
    for pubkey, left in ((ALICE, 995), (BOB, 1_000)):
        assert EntryType.EXPIRY not in host.types(pubkey)
        assert host.world.store.rows[pubkey].head.balance == left
    health = await host.shard.health()
    assert health["clock_doubt"] is None  # The clock is right again by now.
    await host.shard.stop()


@every_jump
async def test_the_time_of_entries_and_the_life_of_batches_are_the_databases(jump: int) -> None:
    """A deposit that meets the jump lives a year, not two or minus one; no later entry waits for a wrong time."""
    host = await Host().start()
    host.clock.ahead_seconds = jump
    await host.tick()
    assert (await host.shard.health())["clock_doubt"] is not None
    now = host.world.clock.now()
    answer = await host.shard.ask(CreditDeposit(ALICE, PaidTransfer(b"s" * 64, 0, 10_000, 7)))
    assert answer.refusal is None
    row = host.world.store.rows[ALICE]
    assert row.profile.created_at == now
    assert [(batch.created_at, batch.expires_at) for batch in row.batches.values()] == [(now, now + 365 * DAY)]
    assert {entry.at_ms // 1000 for entry, _ in row.entries} == {now}
    await host.shard.stop()


@every_jump
async def test_credits_still_expire_on_their_day_after_a_jump(jump: int) -> None:
    """The jump must not put off the looks of the next 400 days. Until the entry is written the credits can be spent."""
    host = await Host().start()
    proof = await host.world.customer(host.shard, ALICE, 100)
    await host.shard.ask(AdjustCredits(BOB, 100, "opening", "of bob"))
    await host.jump(jump)
    expires_at = host.world.store.rows[ALICE].batches[1].expires_at
    host.world.clock.advance(expires_at - host.world.clock.now())
    host.clock.ahead_seconds = jump
    assert (await ask(host.shard.hold_now, hold(1, 5, proof=proof))).verdicts == (None,)
    assert (await ask(host.shard.settle_now, settle(1, 5, held_at=host.world.clock.now()))).ok
    await host.jump(jump)
    assert host.world.store.rows[ALICE].head.balance == 95
    await host.tick()
    for pubkey in (ALICE, BOB):
        assert host.types(pubkey)[-1] == EntryType.EXPIRY
        assert host.world.store.rows[pubkey].head.balance == 0
    await host.shard.stop()


async def test_nobody_is_told_of_an_expiry_a_year_early() -> None:
    """Interface, `credits.expiring`: told once for each batch, 24 hours before. Told early, it is not told in time."""
    host = await Host().start()
    await host.shard.ask(AdjustCredits(ALICE, 100, "opening", "opening"))
    await host.jump(364 * DAY + 1)
    assert host.world.events == []
    host.world.clock.advance(364 * DAY)
    await host.tick()
    assert [type(event) for event in host.world.events] == [CreditsExpiring]
    await host.shard.stop()


async def test_events_and_months_are_kept_by_the_databases_time() -> None:
    """What was told is kept for 30 days, or it could be told again; partitions are made for the months of entries."""
    host = await Host().start()
    forgotten, prepared = [], []

    async def forget(before_ms: int) -> None:
        forgotten.append(before_ms)

    async def prepare(now_ms: int) -> None:
        prepared.append(now_ms)

    host.world.store.outbox.forget = forget  # type: ignore[method-assign]
    host.world.store.prepare = prepare  # type: ignore[method-assign]
    host.world.clock.advance(DAY)
    await host.jump(400 * DAY)
    assert forgotten == [] and prepared == [host.world.clock.now_ms()]
    await host.tick()
    assert forgotten == [host.world.clock.now_ms() - 30 * DAY * 1000]
    await host.shard.stop()


@every_jump
async def test_a_session_outlives_a_jump_and_is_not_prolonged_by_it(jump: int) -> None:
    """Interface, "Session token": one hour from the last use."""
    host = await Host().start()
    await host.world.customer(host.shard, ALICE, 10)
    opened = await host.shard.ask(OpenSession(ALICE, b"challenge", host.world.clock.now()))
    assert opened.value is not None
    proof = SessionProof(token_hash(opened.value), routing_bytes(ALICE))
    host.clock.ahead_seconds = jump
    assert (await host.shard.ask(ReadAccount(proof))).refusal is None
    await host.jump(jump)
    assert (await host.shard.ask(ReadAccount(proof))).refusal is None
    host.world.clock.advance(3_600)
    assert (await host.shard.ask(ReadAccount(proof))).refusal == "AUTH_FAILED"
    await host.shard.stop()


@every_jump
async def test_no_nonce_is_forgotten_because_one_clock_jumped(jump: int, redis_url: str) -> None:
    """Money rule 11: a jump that meets the writing of nonces removes none of those that are there, and the jump of the
    one that is written does not let it go early: a successor refuses both."""
    host = Host()
    client = redis.asyncio.Redis.from_url(redis_url)
    await client.flushall()
    clock = LedgerClock(host.clock)
    host.world.identity = RedisIdentityStore(client, clock)  # type: ignore[assignment]
    host.shard = await host.world.shard(clock)
    await host.world.customer(host.shard, ALICE, 10)
    before, meanwhile, later = (host.world.wallet(ALICE) for _ in range(3))
    assert (await ask(host.shard.hold_now, hold(1, 1, proof=before))).verdicts == (None,)
    host.clock.ahead_seconds = jump
    assert (await ask(host.shard.hold_now, hold(2, 1, proof=meanwhile))).verdicts == (None,)
    host.clock.ahead_seconds = 0
    successor = await host.world.shard(clock)
    for number, proof in enumerate((before, meanwhile)):
        assert (await ask(successor.hold_now, hold(10 + number, 1, proof=proof))).refusal == "NONCE_REUSED"
    assert (await ask(successor.hold_now, hold(20, 1, proof=later))).verdicts == (None,)
    await host.shard.stop()
    await successor.stop()
    await client.aclose()
