"""A month leaves the ledger, and every chain, balance, bill and receipt is what it was, whatever is killed
meanwhile."""

import asyncio
import contextlib
from pathlib import Path

import asyncpg
import pytest

from actors.accounts.bills import ReadBill
from actors.accounts.months import detaching
from actors.accounts.months.detaching import kept_since
from actors.accounts.months.files import ExportError, month_of
from actors.accounts.months.verifying import Row
from actors.accounts.stored import StoreUnavailable
from actors.errors import Err, Refusal
from tests.accounts.making import ALICE, BOB
from tests.accounts.months.world import CAROL, DECEMBER, JANUARY, NOVEMBER, Months, detached, exported, retold
from tests.databases import as_role, tamper

BILLS = [(pubkey, month) for pubkey in (ALICE, BOB, CAROL) for month in ((2023, 12), (2024, 1), (2024, 2))]


async def test_the_ledger_adds_up_without_its_oldest_months(months: Months, owner_url: str, tmp_path: Path) -> None:
    """Before and behind the cut; with the exports from the first entry on; and again with the next month. Accounts
    load as they did, and go on."""
    assert await months.audited(roots=True) == []
    bills = [await months.store.bills.read(ReadBill(pubkey, *month)) for pubkey, month in BILLS]
    loaded = [await months.store.load(pubkey, JANUARY.next_ms) for pubkey in (ALICE, BOB, CAROL)]
    november = await exported(months.pool, NOVEMBER, tmp_path)
    done = await detached(owner_url, november)
    assert (done.tables, done.entries) == (["ledger_2023_10", "ledger_2023_11"], november.manifest.entries)
    assert [await months.store.bills.read(ReadBill(pubkey, *month)) for pubkey, month in BILLS] == bills
    assert await months.audited() == []
    assert await months.audited(november, roots=True) == []
    december = await exported(months.pool, DECEMBER, tmp_path)
    await detached(owner_url, december)
    assert [await months.store.load(pubkey, JANUARY.next_ms) for pubkey in (ALICE, BOB, CAROL)] == loaded
    assert await months.audited(november, december, roots=True) == []
    for number, pubkey in enumerate((ALICE, BOB, CAROL)):
        await months.call(pubkey, JANUARY.next_ms + number, refunded=True)
    await months.seal(JANUARY.next_ms + 5_000)
    assert await months.audited(roots=True) == []
    assert "its export is not among those" in (await months.audited(december))[0]
    bill = await months.store.bills.read(ReadBill(ALICE, 2023, 12))
    assert isinstance(bill, Refusal) and bill.err is Err.MONTH_DETACHED and "2024-01-01T00:00:00Z" in bill.detail


class Killed(Exception):
    """The process ends here."""


@pytest.mark.parametrize("moment", ["behind the proof", "in the cut", "behind the cut", "behind the detaching"])
async def test_a_detaching_that_was_killed_goes_on(
    months: Months, owner_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """At each step: the audit passes meanwhile, and the same command ends what was begun."""
    november = await exported(months.pool, NOVEMBER, tmp_path)
    take_away = detaching._take_away

    async def no_record(*_: object) -> None:
        raise Killed

    async def no_taking(connection: asyncpg.Connection, *_: object) -> None:
        if moment == "behind the detaching":
            await take_away(connection, november, False, lambda _: None)
        raise Killed

    if moment == "behind the proof":
        monkeypatch.setattr(detaching, "_record", no_record)
    elif moment == "in the cut":
        monkeypatch.setattr(detaching, "_TELL", "SELECT 1 / ($1::bigint - $1::bigint)")
    else:
        monkeypatch.setattr(detaching, "_take_away", no_taking)
    with pytest.raises((Killed, asyncpg.DivisionByZeroError)):
        await detached(owner_url, november)
    monkeypatch.undo()
    is_cut = moment.startswith("behind the cut") or moment == "behind the detaching"
    assert await months.store.cuts.kept_from_ms() == (NOVEMBER.next_ms if is_cut else 0)
    assert await months.audited(roots=True) == []
    if is_cut:
        assert await months.audited(november) == []
        bill = await months.store.bills.read(ReadBill(ALICE, 2023, 11))
        assert isinstance(bill, Refusal)
        other = retold(november, tmp_path / "other", made_at="at another time")
        with pytest.raises(ExportError, match="another export"):
            await detached(owner_url, other)
    done = await detached(owner_url, november)
    assert "ledger_2023_11" in done.tables and done.dropped
    assert (await detached(owner_url, november)).tables == []
    assert await months.audited(november, roots=True) == []


async def test_what_may_not_leave_is_refused_with_its_remedy(
    months: Months, owner_url: str, postgres_url: str, tmp_path: Path
) -> None:
    """And the ledger is as it was: a month that is too young or not the oldest, a role that may not, entries that are
    in no statement, charges that are noted as undelivered, another command that is at work."""
    november = await exported(months.pool, NOVEMBER, tmp_path)
    december = await exported(months.pool, DECEMBER, tmp_path)
    with pytest.raises(ExportError, match="2023-11 is older and has entries: detach that month first"):
        await detached(owner_url, december)
    with pytest.raises(ExportError, match="too young: the ledger keeps 240 whole months"):
        await detached(owner_url, november, kept_months=240)
    with pytest.raises(ExportError, match="MIGRATIONS_URL"):
        await detached(postgres_url, november)
    await tamper(owner_url, f"UPDATE account_seals SET seq = seq - 1 WHERE pubkey = '\\x{BOB.hex()}'")
    with pytest.raises(ExportError, match="in no signed statement: start the product"):
        await detached(owner_url, november)
    await tamper(owner_url, f"UPDATE account_seals SET seq = seq + 1 WHERE pubkey = '\\x{BOB.hex()}'")
    undelivered = "INSERT INTO account_edges VALUES (0, convert_to('replica1', 'UTF8'), 0, 1, int8send(1))"
    await as_role(owner_url, undelivered)
    with pytest.raises(ExportError, match="noted as undelivered: start the product"):
        await detached(owner_url, november)
    await as_role(owner_url, "TRUNCATE account_edges")
    busy = await asyncpg.connect(owner_url)
    await busy.fetchval("SELECT pg_advisory_lock($1)", detaching._LOCK)
    with pytest.raises(ExportError, match="another process"):
        await detached(owner_url, november)
    await busy.close()
    assert await months.store.cuts.kept_from_ms() == 0 and await months.audited(roots=True) == []


async def test_an_export_that_differs_detaches_nothing(months: Months, owner_url: str, tmp_path: Path) -> None:
    """By one description, by a row that was left out at the end, by an entry that came later, by damaged bytes."""
    true = await exported(months.pool, NOVEMBER, tmp_path)

    def described(rows: list[Row]) -> list[Row]:
        return [(*row[:9], "another", *row[10:]) if number == 7 else row for number, row in enumerate(rows)]

    with pytest.raises(ExportError, match="breaks the hash chain"):
        await detached(owner_url, retold(true, tmp_path / "described", "entries", described))
    with pytest.raises(ExportError, match="do not end with the one that its head names"):
        await detached(owner_url, retold(true, tmp_path / "short", "entries", lambda rows: rows[:-1]))
    damaged = retold(true, tmp_path / "damaged")
    path = next(damaged.folder.glob("statements-*"))
    path.write_bytes(path.read_bytes()[:-30] + bytes(30))
    with pytest.raises(ExportError, match=r"cannot be read|its bytes differ"):
        await detached(owner_url, damaged)
    await tamper(owner_url, "UPDATE ledger SET description = 'other' WHERE type = 4 AND seq = 4")
    with pytest.raises(ExportError, match="differ behind row 0 of 2023-11"):
        await detached(owner_url, true)
    assert await months.store.cuts.kept_from_ms() == 0


async def test_an_entry_in_the_last_moment_stops_the_cut(months: Months, owner_url: str, tmp_path: Path) -> None:
    """As by a clock that was set back by months; and behind the cut the month takes none."""
    november = await exported(months.pool, NOVEMBER, tmp_path)
    prepared = detaching._Prepared(b"", b"")
    account = await months.opened_late(b"c" * 32, NOVEMBER.first_ms + 5)
    connection = await asyncpg.connect(owner_url)
    await connection.execute(detaching._STAGE)
    with pytest.raises(ExportError, match="has got entries since the export"):
        await detaching._record(connection, november, prepared)
    await connection.close()
    await months.seal(JANUARY.next_ms)
    again = await exported(months.pool, NOVEMBER, tmp_path / "again")
    assert again.manifest.accounts == november.manifest.accounts + 1 and account.seq > 0
    await detached(owner_url, again, drop=False)
    await months.store.prepare(NOVEMBER.first_ms)
    with pytest.raises((StoreUnavailable, asyncpg.PostgresError)):
        await months.opened_late(b"d" * 32, NOVEMBER.first_ms + 6)
    assert await months.audited(again) == []


async def test_a_month_leaves_while_calls_and_listings_go_on(months: Months, owner_url: str, tmp_path: Path) -> None:
    """A reader that has begun is waited for, and no call waits for it. A process that dies while it waits leaves a
    table that is half detached, which the next one ends."""
    november = await exported(months.pool, NOVEMBER, tmp_path)
    reader = await asyncpg.connect(owner_url)
    reading = reader.transaction()
    await reading.start()
    count = await reader.fetchval("SELECT count(*) FROM ledger")
    leaving = asyncio.create_task(detached(owner_url, november))
    while await months.store.cuts.kept_from_ms() == 0:
        assert not leaving.done()
    async with asyncio.timeout(5):
        for number in range(20):
            await months.call(ALICE, JANUARY.next_ms + number)
            assert len(await months.store.entries(ALICE, 0, 5, False)) == 5
    assert await reader.fetchval("SELECT count(*) FROM ledger") >= count
    pending = "SELECT count(*) FROM pg_inherits WHERE inhdetachpending"
    while await months.pool.fetchval(pending) == 0:
        assert not leaving.done()
    leaving.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await leaving
    assert await months.pool.fetchval(pending) == 1 and await months.audited(november) == []
    await reading.commit()
    await reader.close()
    assert (await detached(owner_url, november)).dropped
    await months.seal(JANUARY.next_ms + 9_000)
    assert await months.audited(november, roots=True) == []


def test_whole_months_stay_before_the_present_one() -> None:
    assert kept_since(DECEMBER.first_ms, 2) == month_of("2023-10")
    assert kept_since(DECEMBER.next_ms - 1, 2) == month_of("2023-10")
    assert kept_since(DECEMBER.next_ms, 13) == month_of("2022-12")
