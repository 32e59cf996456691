"""An export has every entry of a closed month, whatever is written meanwhile, and is proven by its files alone."""

from pathlib import Path

import asyncpg
import pytest

from actors.accounts.months import exporting, files, reading
from actors.accounts.months.exporting import export, require_closed
from actors.accounts.months.files import ENTRIES, ExportError
from actors.accounts.months.verifying import verify
from tests.accounts.making import BOB
from tests.accounts.months.world import DECEMBER, JANUARY, NOVEMBER, OCTOBER, Months, exported
from tests.databases import tamper


async def test_each_month_is_exported_whole(
    months: Months, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner_url: str
) -> None:
    """Through pages and groups of any size; months are proven together and alone; an empty month is one too. Entries
    in no statement, a broken chain, and a month that goes on are refused, and leave no folder."""
    monkeypatch.setattr(reading, "ROWS_OF_GROUP", 7)
    monkeypatch.setattr(exporting, "ROWS_OF_GROUP", 1)
    made = [await exported(months.pool, month, tmp_path) for month in (OCTOBER, NOVEMBER, DECEMBER, JANUARY)]
    assert made[0].manifest.entries == 0 and made[0].manifest.statements == 0
    assert verify(made).faults == [] and [verify([month]).faults for month in made] == [[]] * 4
    report = verify(made[2:])
    assert report.beginnings == 1 and report.faults == []  # CAROL begins in December.
    rows = [row for month in made for group in month.rows(ENTRIES) for row in group]
    stored = await months.pool.fetch(
        "SELECT pubkey, seq, at_ms, type, amount, balance, operation_id, method, outcome, description, parcels, hash"
        " FROM ledger WHERE at_ms < $1",
        JANUARY.next_ms,
    )
    assert sorted(rows) == sorted(map(tuple, stored)) and len(rows) == verify(made).entries > 70

    await months.call(BOB, JANUARY.next_ms - 1)
    with pytest.raises(ExportError, match="1 accounts have entries of 2024-01 in no signed statement"):
        await exported(months.pool, JANUARY, tmp_path / "again")
    await tamper(owner_url, f"UPDATE ledger SET amount = 1 WHERE type = 4 AND at_ms < {NOVEMBER.next_ms}")
    with pytest.raises(ExportError, match="does not follow from the one before: run the audit"):
        await exported(months.pool, NOVEMBER, tmp_path / "again")
    assert list((tmp_path / "again").iterdir()) == []


def test_a_month_that_may_still_get_entries_is_refused() -> None:
    """For an hour behind its end: clocks differ."""
    require_closed(NOVEMBER, NOVEMBER.next_ms + 3_600_000)
    with pytest.raises(ExportError, match="may get entries until 2023-12-01 01:00:00 UTC"):
        require_closed(NOVEMBER, NOVEMBER.next_ms + 3_599_999)


async def test_the_present_month_is_refused(owner_url: str, tmp_path: Path) -> None:
    """By the database's time."""
    connection = await asyncpg.connect(owner_url)
    now_ms = await connection.fetchval("SELECT (extract(epoch FROM now()) * 1000)::bigint")
    month = files.month_from(now_ms)
    with pytest.raises(ExportError, match="is not closed"):
        await export(connection, month, tmp_path)
    await connection.close()
