"""A ledger of three months in this module's own database. Its tables of months are made anew for each test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from actors.storage.connections import connect_postgres
from tests.accounts.conftest import TABLES
from tests.accounts.months.world import MONTHS, OCTOBER, Months
from tests.databases import as_role


@pytest.fixture
async def months(postgres_url: str, owner_url: str, tmp_path: Path) -> AsyncIterator[Months]:
    tables = [f"DROP TABLE IF EXISTS ledger_{month.name.replace('-', '_')}" for month in (OCTOBER, *MONTHS)]
    await as_role(owner_url, f"TRUNCATE {TABLES}", *tables)
    pool = await connect_postgres(postgres_url, connections_max=4, application="tests")
    made = Months(pool, tmp_path / "roots")
    await made.fill()
    yield made
    await made.store.close()
    pool.terminate()
