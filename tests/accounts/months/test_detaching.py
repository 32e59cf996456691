"""A month leaves the ledger, and every chain, balance, bill and receipt is what it was, whatever is killed meanwhile."""

import asyncio
from pathlib import Path

import asyncpg
import pytest

from actors.accounts.bills import ReadBill
from actors.accounts.months import detaching
from actors.accounts.months.detaching import kept_since
from actors.accounts.months.exporting import export
from actors.accounts.months.files import ExportError, month_of
from actors.accounts.months.row_digests import RowDigests
from actors.accounts.stored import StoreUnavailable
from actors.errors import Err, Refusal
from actors.storage.connections import connect_postgres
from actors.storage.schema_plan import SchemaMismatch
from tests.accounts.making import ALICE, BOB
from tests.accounts.months.world import CAROL, DECEMBER, JANUARY, NOVEMBER, Months, detached, exported
from tests.databases import as_role, tamper

BILLS = [(pubkey, month) for pubkey in (ALICE, BOB, CAROL) for month in ((2023, 12), (2024, 1), (2024, 2))]


async def test_the_ledger_adds_up_without_its_oldest_months(months: Months, owner_url: str, tmp_path: Path) -> None:
    """Before and behind the cut; with the exports from the first entry on; and again with the next month. Accounts load as
    they did, and go on."""
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
    record, take_away = detaching._record, detaching._take_away

    async def no_record(*_: object) -> None:
        raise Killed

    async def no_taking(connection: asyncpg.Connection, *_: object) -> None:
        if moment == "behind the detaching":
            await take_away(connection, november, False, lambda _: None)
        raise Killed

    if moment == "behind the proof":
        monkeypatch.setattr(detaching, "_record", no_record)
    elif moment == "in the cut":
        monkeypatch.setattr(detaching, "_TELL", "SELECT 1 / ($1 - $1)")
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
        other = await _another(months, tmp_path / "other")
        with pytest.raises(ExportError, match="another export"):
            await detached(owner_url, other)
    done = await detached(owner_url, november)
    assert "ledger_2023_11" in done.tables and done.dropped
    assert (await detached(owner_url, november)).tables == []
    assert await months.audited(november, roots=True) == []
    assert record is detaching._record


async def _another(months: Months, place: Path):  # type: ignore[no-untyped-def]
    """An export of the same month with another manifest."""
    from tests.accounts.months.world import rewritten

    return await rewritten(await exported_again(months, place))


async def exported_again(months: Months, place: Path):  # type: ignore[no-untyped-def]
    raise AssertionError((months, place))
