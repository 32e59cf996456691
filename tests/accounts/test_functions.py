"""The functions of functions.sql, in a real database."""

from datetime import UTC, datetime

import asyncpg
import pytest

from actors.accounts.ledger_time import months
from actors.accounts.store import PostgresAccountStore
from tests.accounts.making import START
from tests.accounts.test_store import SHARDS, debits, opened_in


def test_partitions_are_made_ahead_and_cover_the_clock_being_set_back() -> None:
    made = months(1_735_689_599_999)  # The last millisecond of 2024.
    assert [datetime.fromtimestamp(first_ms / 1000, UTC) for first_ms in made] == [
        datetime(2024, 11, 1, tzinfo=UTC),
        datetime(2024, 12, 1, tzinfo=UTC),
        datetime(2025, 1, 1, tzinfo=UTC),
        datetime(2025, 2, 1, tzinfo=UTC),
    ]


@pytest.mark.parametrize("entries", [1, 2])
async def test_a_write_tells_the_databases_time(postgres_pool: asyncpg.Pool, entries: int) -> None:
    """With each group, so that an owner learns of a clock of its own that is wrong."""
    store = PostgresAccountStore(postgres_pool)
    await store.prepare(START.wall_ms)
    epoch = await store.take_over("me", SHARDS, False)
    account = await opened_in(store, epoch)
    clock = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint"
    before = await postgres_pool.fetchval(clock)
    told = await store.write(epoch, debits(account, entries))
    assert before - 1 <= told <= await postgres_pool.fetchval(clock) + 1
    await store.close()


async def test_a_partition_holds_one_month_of_the_calendar(postgres_pool: asyncpg.Pool) -> None:
    """The database works the bounds out itself: a caller names a month and nothing else."""
    await PostgresAccountStore(postgres_pool).prepare(1_735_689_599_999)
    bounds = await postgres_pool.fetchval(
        "SELECT pg_get_expr(relpartbound, oid) FROM pg_class WHERE relname = 'ledger_2024_12'"
    )
    assert bounds == "FOR VALUES FROM ('1733011200000') TO ('1735689600000')"
    with pytest.raises(asyncpg.RaiseError, match="a partition begins with a month"):
        await postgres_pool.execute("SELECT accounts_partition(1735689599000)")
    # February 2028 BC: its partition would have the name of a month to come.
    before_christ = await postgres_pool.fetchval(
        "SELECT (extract(epoch FROM '2028-02-01 BC'::timestamp) * 1000)::bigint"
    )
    for first_ms in (before_christ, 7_258_118_400_000):
        with pytest.raises(asyncpg.RaiseError, match="a month from 2000 to 2199"):
            await postgres_pool.execute("SELECT accounts_partition($1)", first_ms)
