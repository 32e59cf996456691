"""Pages of a month, and of the statements since it began, have each row once and in order."""

import pytest

from actors.accounts.months import reading
from actors.accounts.months.reading import hashes_before, pages_of, statements_from
from tests.accounts.making import ALICE, BOB
from tests.accounts.months.world import CAROL, DECEMBER, Months


async def test_pages_follow_each_other(months: Months, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever their size. The hash before a month is that of the newest entry before it."""
    async with months.pool.acquire() as connection:
        whole = [row async for page in pages_of(connection, DECEMBER) for row in page]
        statements = [row async for row in statements_from(connection, DECEMBER.first_ms)]
        monkeypatch.setattr(reading, "ROWS_OF_GROUP", 4)
        monkeypatch.setattr(reading, "STATEMENTS_OF_GROUP", 2)
        assert [row async for page in pages_of(connection, DECEMBER) for row in page] == whole
        assert [row async for row in statements_from(connection, DECEMBER.first_ms)] == statements
        assert whole == sorted(whole, key=lambda row: (row[0], row[2], row[1])) and len(statements) >= 4
        befores = await hashes_before(connection, DECEMBER, [ALICE, BOB, CAROL])
        newest = await connection.fetchval(
            "SELECT hash FROM ledger WHERE pubkey = $1 AND at_ms < $2 ORDER BY seq DESC LIMIT 1",
            ALICE,
            DECEMBER.first_ms,
        )
    assert befores[ALICE] == newest and befores[CAROL] is None and befores[BOB] is not None
