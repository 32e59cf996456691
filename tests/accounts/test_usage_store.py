"""Usage by PostgreSQL equals a recount of the ledger, whatever was rolled up, by whomever, and whatever was killed."""

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
from actors.accounts.usage import ROWS_MAX, UsageLine
from actors.storage.connections import connect_postgres
from tests.accounts.conftest import TABLES
from tests.accounts.making import ALICE, BOB, START, group_of, later, opened, opening_group, settle, take
from tests.accounts.memory_store import recounted
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
    assert [tuple(await store.usage.roll(ALICE, 4)) for _ in range(3)] == [(4, 4), (2, 6), (0, 6)]
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
