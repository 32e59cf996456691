"""Usage: bounded questions; sums that equal a recount of the ledger, whatever was rolled up or killed; the rollup."""

import asyncio
from collections.abc import Sequence
from typing import Any

import asyncpg
import hypothesis
import msgspec
import pytest
from hypothesis import strategies as st

from actors.accounts import audit
from actors.accounts.account import Account, Event, Moment
from actors.accounts.core import decide_adjust, decide_recall, decide_settle, decide_void
from actors.accounts.store import AccountStore, PostgresAccountStore
from actors.accounts.stored import StoreUnavailable
from actors.accounts.usage import (
    BEHIND_ENTRIES,
    HOURLY_DAYS_MAX,
    RANGE_DAYS_MAX,
    ROWS_MAX,
    Rolled,
    UsageLine,
    UsageRollup,
    bucket_hours,
    usage_mistake,
)
from actors.clock import ManualClock
from actors.storage.connections import connect_postgres
from tests.accounts.conftest import TABLES
from tests.accounts.making import ALICE, BOB, START, group_of, later, opened, opening_group, settle, take
from tests.accounts.memory_usage import recounted
from tests.accounts.test_store import SHARDS, debits, opened_in
from tests.databases import as_role, tamper

HOUR = START.wall_ms // 3_600_000
METHODS = ("getBalance", "getBlock", "signal")
step = st.one_of(
    st.tuples(st.just("charge"), st.sampled_from(METHODS), st.integers(1, 30)),
    st.tuples(st.just("refund"), st.integers(0, 10), st.just(0)),
    st.tuples(st.just("adjust"), st.integers(-20, 20).filter(bool), st.just(0)),
    st.tuples(st.just("wait"), st.sampled_from((1, 1_800, 3_600, 86_400)), st.just(0)),
    st.tuples(st.just("roll"), st.integers(1, 4), st.just(0)),
    st.tuples(st.just("roll twice at once"), st.integers(1, 4), st.just(0)),
    st.tuples(st.just("killed while rolling"), st.integers(1, 4), st.just(0)),
)


def ordered(lines: Sequence[UsageLine]) -> list[tuple[Any, ...]]:
    return sorted((line.method or "", line.hour, line.calls, line.credits) for line in lines)


class Life:
    """One account that is charged, refunded and rolled up."""

    def __init__(self, pool: asyncpg.Pool, store: PostgresAccountStore, pubkey: bytes) -> None:
        self.pool, self.store, self.pubkey = pool, store, pubkey
        self.moment, self.account, self.epoch = START, opened(pubkey), 0
        self.charged: list[Any] = []
        self.numbers = 1_000 * pubkey[0]

    async def open(self, epoch: int) -> None:
        self.epoch = epoch
        await self.store.write(epoch, opening_group(self.account))
        await self.keep(decide_adjust(self.account, 1_000_000, "opening", b"opening", self.moment))

    async def keep(self, event: Event | None) -> None:
        assert event is not None
        await self.store.write(self.epoch, group_of(self.account, event))

    async def act(self, kind: str, one: Any, other: int) -> None:
        roll = self.store.usage.roll
        self.numbers += 1
        match kind:
            case "charge":
                asked = settle(self.numbers, other, pubkey=self.pubkey, held_at=self.moment.wall_ms // 1000)
                request = msgspec.structs.replace(asked, method=one)
                self.charged.append(request)
                await self.keep(decide_settle(self.account, request, self.moment, True).event)
            case "refund" if self.charged:
                request = self.charged.pop(one % len(self.charged))
                past = (await self.store.find_ended([key := (self.pubkey, request.operation)])).get(key)
                if self.account.operations.get(request.operation) is None:  # Memory has forgotten it meanwhile.
                    take(self.account, decide_recall(request.operation, past, self.moment))
                await self.keep(decide_void(self.account, request, self.moment, True).event)
            case "adjust":
                await self.keep(decide_adjust(self.account, one, "", b"%d" % self.numbers, self.moment))
            case "wait":
                self.moment: Moment = later(self.moment, one)
            case "roll":
                await roll(self.pubkey, one)
            case "roll twice at once":
                await asyncio.gather(roll(self.pubkey, one), roll(self.pubkey, one + 1))
            case "killed while rolling":
                async with self.pool.acquire() as connection:
                    transaction = connection.transaction()
                    await transaction.start()
                    await connection.execute("SELECT accounts_roll_usage($1, $2)", self.pubkey, one)
                    await transaction.rollback()

    async def check(self) -> None:
        entries = await self.store.entries(self.pubkey, 0, 500, False)
        end = self.moment.wall_ms // 3_600_000 + 1
        for by in (("method", "hour"), ("day",), ("method",), ("hour", "day", "method")):
            for first, last in ((HOUR, end), (HOUR + 1, max(HOUR + 2, end - 1))):
                read = await self.store.usage.read(self.pubkey, first, last, by)
                assert ordered(read) == ordered(recounted(entries, first, last, by))
        everything = await self.store.usage.read(self.pubkey, HOUR, end, ("method",))
        assert sum(line.credits for line in everything) == self.account.total_consumed


@hypothesis.given(steps=st.lists(step, min_size=4, max_size=25))
@hypothesis.settings(max_examples=15)
def test_usage_is_what_the_ledger_says(postgres_url: str, owner_url: str, steps: list[tuple[str, Any, int]]) -> None:
    """Money rule 6: sums equal an independent recount of the entries, of one account and not of its neighbour, at every
    moment of any interleaving of charges, refunds, adjustments, rollups, two owners at once, and kills."""

    async def live() -> None:
        await as_role(owner_url, f"TRUNCATE {TABLES}")
        pool = await connect_postgres(postgres_url, connections_max=6, application="tests")
        store = PostgresAccountStore(pool)
        try:
            await store.prepare(START.wall_ms)
            epoch = await store.take_over("owner", SHARDS, False)
            lives = Life(pool, store, ALICE), Life(pool, store, BOB)
            for life in lives:
                await life.open(epoch)
            for number, taken in enumerate(steps):
                await lives[number % 5 == 4].act(*taken)
            for life in lives:
                await life.check()
                await life.act("roll", 1_000, 0)
                await life.check()
            async with pool.acquire() as connection:
                assert (await audit.audit(connection)).faults == []
        finally:
            await store.close()
            pool.terminate()

    asyncio.run(live())


async def test_both_stores_roll_so_many_entries_and_then_none(store: AccountStore) -> None:
    """The port's promise: how many entries there were, and the newest one that is in the rollup."""
    account: Account = await opened_in(store, epoch := await store.take_over("first", SHARDS, False))
    await store.write(epoch, debits(account, 5))
    assert [tuple(await store.usage.roll(ALICE, 4)) for _ in range(3)] == [(4, 4), (4, 8), (0, 8)]
    assert await store.usage.roll(BOB, 4) == (0, 0)
    lines = await store.usage.read(ALICE, HOUR, HOUR + 1, ("method", "hour"))
    assert lines == [UsageLine("getBalance", HOUR, 5, 5)]
    assert await store.usage.read(BOB, HOUR, HOUR + 1, ("method", "hour")) == []


async def test_no_more_rows_are_read_than_may_be_told(postgres_pool: asyncpg.Pool) -> None:
    """A bounded answer: one row more than the most says that there would be more."""
    rows = [(ALICE, HOUR + number // 40, f"m{number % 40}", 1, 1) for number in range(ROWS_MAX + 100)]
    await postgres_pool.executemany("INSERT INTO account_usage VALUES ($1, $2, $3, $4, $5)", rows)
    store = PostgresAccountStore(postgres_pool)
    lines = await store.usage.read(ALICE, HOUR, HOUR + 1_000, ("method", "hour"))
    assert len(lines) == ROWS_MAX + 1


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("UPDATE account_usage SET credits = credits + 1", "usage of an hour"),
        ("DELETE FROM account_usage", "usage of an hour"),
        ("INSERT INTO account_usage SELECT pubkey, hour + 1, method, 0, 0 FROM account_usage", "usage of an hour"),
        ("UPDATE account_usage_marks SET seq = seq + 1", "an entry that is not there"),
    ],
)
async def test_the_audit_finds_a_rollup_that_was_changed(
    postgres_pool: asyncpg.Pool, owner_url: str, statement: str, told: str
) -> None:
    """The rollup is no second truth: the audit recounts it from the entries."""
    store = PostgresAccountStore(postgres_pool)
    await store.prepare(START.wall_ms)
    account = await opened_in(store, epoch := await store.take_over("first", SHARDS, False))
    await store.write(epoch, debits(account, 5))
    await store.usage.roll(ALICE, 100)
    await store.close()
    await tamper(owner_url, statement)
    async with postgres_pool.acquire() as connection:
        report = await audit.audit(connection)
    assert any(told in fault for _, fault in report.faults), report.faults


CAROL = b"c" * 32


class Ledger:
    """A store that has so many entries of each account. away: so many of the coming requests fail. damaged: an account
    whose requests all fail."""

    def __init__(self, entries: dict[bytes, int]) -> None:
        self.entries, self.rolled, self.asked, self.away = entries, dict.fromkeys(entries, 0), 0, 0
        self.damaged = b""

    async def read(self, pubkey: bytes, first_hour: int, end_hour: int, by: tuple[str, ...]) -> list[object]:
        raise AssertionError("nobody reads here")

    async def roll(self, pubkey: bytes, entries_max: int) -> Rolled:
        self.asked += 1
        if pubkey == self.damaged:
            raise StoreUnavailable("a refund without its debit")
        if self.away:
            self.away -= 1
            raise StoreUnavailable("nobody listens")
        before = self.rolled[pubkey]
        self.rolled[pubkey] = min(self.entries[pubkey], before + entries_max)
        return Rolled(self.rolled[pubkey] - before, self.rolled[pubkey])


def in_memory(entries: dict[bytes, int]) -> dict[bytes, Account]:
    accounts = {pubkey: opened(pubkey) for pubkey in entries}
    for pubkey, account in accounts.items():
        account.seq = entries[pubkey]
    return accounts


@pytest.mark.parametrize("away", [0, 1, 5])
async def test_accounts_that_fall_behind_are_rolled_up_in_bounded_steps(away: int) -> None:
    """A tick does a bounded part; a busy account is caught up over the next ones; one that is hardly behind waits; a
    database that is away delays it and loses nothing."""
    clock = ManualClock()
    ledger = Ledger({ALICE: 95_000, BOB: BEHIND_ENTRIES - 1, CAROL: BEHIND_ENTRIES})
    ledger.away = away
    rollup = UsageRollup(ledger, clock, in_memory(ledger.entries))  # type: ignore[arg-type]
    for _ in range(10 * (away + 1)):
        before = dict(ledger.rolled)
        await rollup.tick()
        assert sum(ledger.rolled.values()) - sum(before.values()) <= 25_000
        clock.advance(1)
    for _ in range(10):
        await rollup.tick()
        clock.advance(1)
    assert ledger.rolled == {ALICE: 95_000, BOB: 0, CAROL: BEHIND_ENTRIES}
    asked = ledger.asked
    for _ in range(60):
        clock.advance(1)
        await rollup.tick()
    assert ledger.asked == asked  # Nobody is behind, so nothing is asked.


async def test_an_account_that_cannot_be_rolled_up_holds_up_nobody_else() -> None:
    """Threat 20: the damage of one account is its own."""
    clock = ManualClock()
    ledger = Ledger({ALICE: 1_000, BOB: 1_000, CAROL: 1_000})
    ledger.damaged = ALICE
    rollup = UsageRollup(ledger, clock, in_memory(ledger.entries))  # type: ignore[arg-type]
    for _ in range(30):
        await rollup.tick()
        clock.advance(1)
    assert ledger.rolled == {ALICE: 0, BOB: 1_000, CAROL: 1_000}


@pytest.mark.parametrize(
    ("question", "told"),
    [
        ((0, 24, ()), "by must be"),
        ((0, 24, ("method", "method")), "each once"),
        ((0, 24, ("method; DROP TABLE ledger",)), "by must be"),
        ((25, 24, ("hour",)), "not be after"),
        ((-1, 24, ("hour",)), "1970"),
        ((0, 10**12, ("day",)), "2199"),
        ((0, HOURLY_DAYS_MAX * 24 + 2, ("hour", "method")), "31 days apart by hour"),
        ((0, RANGE_DAYS_MAX * 24 + 2, ("day", "method")), "92 days apart"),
    ],
)
def test_a_question_is_bounded_and_its_refusal_says_how(question: tuple[int, int, tuple[str, ...]], told: str) -> None:
    assert told in (usage_mistake(*question) or "")


def test_the_largest_questions_are_allowed_in_any_order_of_columns() -> None:
    assert usage_mistake(0, HOURLY_DAYS_MAX * 24, ("hour", "day", "method")) is None
    assert usage_mistake(24, 24, ("hour",)) is None  # An empty range.
    assert usage_mistake(5, 5 + RANGE_DAYS_MAX * 24, ("day", "method")) is None
    assert [bucket_hours(by) for by in (("method",), ("day",), ("day", "hour"))] == [0, 24, 1]
