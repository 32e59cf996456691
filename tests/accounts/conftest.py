"""Fixtures of the accounts context: both stores, and an owner of all accounts over memory stores."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager

import asyncpg
import pytest

from actors.accounts.actor import AccountShard
from actors.accounts.store import AccountStore, PostgresAccountStore
from actors.clock import ManualClock
from tests.accounts.memory_store import MemoryAccountStore
from tests.accounts.shards import World
from tests.databases import emptied

TABLES = (
    "accounts, credit_batches, ledger, account_debits, account_operations, shard_owner, account_deposits,"
    " account_events, referral_codes, account_facts, account_fact_heads,"
    " account_usage, account_usage_marks, account_edges, account_statements, account_seals, ledger_keys,"
    " account_keys, account_key_spending, account_key_usage, account_hourly_limits, account_hours,"
    " ledger_cuts, ledger_carried, ledger_kept_facts,"
    " account_price_lists"
)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def empty_database(url: str, owner_url: str) -> AbstractAsyncContextManager[asyncpg.Pool]:
    return emptied(url, owner_url, f"TRUNCATE {TABLES}", connections_max=4)


@pytest.fixture
async def postgres_pool(postgres_url: str, owner_url: str) -> AsyncIterator[asyncpg.Pool]:
    """A pool to this module's database with the product's role, the context's tables empty."""
    async with empty_database(postgres_url, owner_url) as pool:
        yield pool


@pytest.fixture(params=["memory", "postgres"])
async def store(request: pytest.FixtureRequest, clock: ManualClock) -> AsyncIterator[AccountStore]:
    """Each store in turn, empty."""
    if request.param == "memory":
        yield MemoryAccountStore(clock)
        return
    urls = (request.getfixturevalue(name) for name in ("postgres_url", "owner_url"))
    async with empty_database(*urls) as pool:
        store = PostgresAccountStore(pool)
        await store.prepare(clock.now_ms())
        yield store
        await store.close()


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
async def shard(world: World) -> AsyncIterator[AccountShard]:
    shard = await world.shard()
    yield shard
    await shard.stop()
