"""A chain inside the test with a deposit wallet."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from actors.deposits.usdc.store import DepositStore, PostgresDepositStore
from actors.storage.connections import connect_postgres
from tests.databases import as_role
from tests.deposits.memory_stores import MemoryDepositStore
from tests.deposits.token_making import Shop
from tests.deposits.x402_world import PaymentWorld, a_payment_world

TABLES = "deposit_cursor, deposit_inbox, deposits, deposit_gaps"


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    shop = Shop(tmp_path)
    yield shop
    shop.node.close()


@pytest.fixture(params=["memory", "postgres"])
async def deposit_store(request: pytest.FixtureRequest) -> AsyncIterator[DepositStore]:
    """Each store in turn, empty."""
    if request.param == "memory":
        yield MemoryDepositStore()
        return
    pool = await connect_postgres(request.getfixturevalue("postgres_url"), connections_max=4, application="tests")
    try:
        store = PostgresDepositStore(pool, "test")
        await store.prepare()
        await as_role(request.getfixturevalue("owner_url"), f"TRUNCATE {TABLES}")
        yield store
    finally:
        await pool.close()


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[PaymentWorld]:
    made = await a_payment_world(tmp_path)
    yield made
    await made.close()
