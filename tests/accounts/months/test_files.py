"""A month's folder is there whole or not at all, and says what stands in it."""

from pathlib import Path

import msgspec
import pytest

from actors.accounts.bills import month_ms
from actors.accounts.months import files
from actors.accounts.months.files import (
    ENTRIES,
    MANIFEST,
    ExportError,
    MonthWriter,
    month_from,
    month_of,
    open_month,
    open_months,
)
from tests.accounts.making import ALICE
from tests.accounts.months.making import Chain, month_made
from tests.accounts.months.world import DECEMBER, NOVEMBER


def grown(count: int) -> Chain:
    chain = Chain(ALICE)
    for number in range(count):
        chain.grow(NOVEMBER.first_ms + number)
    return chain


def test_months_are_named_in_utc() -> None:
    assert month_of("2023-11") == NOVEMBER == month_from(NOVEMBER.first_ms)
    assert (NOVEMBER.first_ms, NOVEMBER.next_ms) == month_ms(2023, 11) and NOVEMBER.folder == "ledger-2023-11"
    for name in ("2023-13", "23-11", "2023-11-01", "", "../etc", "2023-1١"):
        with pytest.raises(ExportError, match="no month"):
            month_of(name)


def test_rows_come_back_as_they_were_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Through several files and groups, in their order."""
    monkeypatch.setattr(files, "ROWS_OF_FILE", 4)
    monkeypatch.setattr(files, "ROWS_OF_GROUP", 3)
    chain, writer = grown(11), MonthWriter(tmp_path, NOVEMBER)
    for start in range(0, 11, 2):
        writer.write(ENTRIES, [chain.row(number + 1) for number in range(start, min(start + 2, 11))])
    month = writer.finish(month_made(tmp_path / "told", NOVEMBER, [chain], []).manifest)
    assert [record.rows for record in month.manifest.files] == [4, 4, 3]
    assert [row for group in month.rows(ENTRIES) for row in group] == [chain.row(number) for number in range(1, 12)]
    assert month.differing_files() == [] and open_months([tmp_path])[0].digest == month.digest


def test_what_a_kill_leaves_is_no_export_and_is_removed(tmp_path: Path) -> None:
    """The next export begins anew; one that is whole is never written over."""
    killed = MonthWriter(tmp_path, NOVEMBER)
    killed.write(ENTRIES, [grown(1).row(1)])
    with pytest.raises(ExportError, match="has no export"):
        open_months([tmp_path])
    month_made(tmp_path, NOVEMBER, [grown(2)], [])
    assert [path.name for path in tmp_path.iterdir()] == ["ledger-2023-11"]
    with pytest.raises(ExportError, match="is there already"):
        MonthWriter(tmp_path, NOVEMBER)
    discarded = MonthWriter(tmp_path, DECEMBER)
    discarded.write(ENTRIES, [grown(1).row(1)])
    discarded.discard()
    assert [path.name for path in tmp_path.iterdir()] == ["ledger-2023-11"]


def test_a_damaged_folder_is_refused(tmp_path: Path) -> None:
    """A byte of a file, a file that is gone or of other columns, a manifest of another kind or with paths in it."""
    month = month_made(tmp_path, NOVEMBER, [grown(3)], [])
    path = month.folder / "entries-0001.parquet"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + b"x")
    assert month.differing_files() == [
        "the file entries-0001.parquet is not the one that was written: its bytes differ"
    ]
    with pytest.raises(ExportError, match="cannot be read"):
        list(month.rows(ENTRIES))
    path.write_bytes((month.folder / "accounts-0001.parquet").read_bytes())
    with pytest.raises(ExportError, match="other columns"):
        list(month.rows(ENTRIES))
    path.unlink()
    assert month.differing_files() == ["the file entries-0001.parquet is missing"]
    manifest = month.folder / MANIFEST
    told = msgspec.json.decode(manifest.read_bytes())
    for change, why in (
        ({"format": "other"}, "another format"),
        ({"next_ms": 5}, "another format"),
        ({"files": [told["files"][0] | {"name": "../entries"}]}, "outside its folder"),
        ({"month": "2023"}, "no month"),
        ({"entries": "many"}, "no manifest"),
    ):
        manifest.write_bytes(msgspec.json.encode(told | change))
        with pytest.raises(ExportError, match=why):
            open_month(month.folder)
    with pytest.raises(ExportError, match="cannot be read"):
        open_month(tmp_path)


def test_a_month_is_given_once(tmp_path: Path) -> None:
    first = month_made(tmp_path / "a", NOVEMBER, [grown(1)], [])
    second = month_made(tmp_path / "b", DECEMBER, [], [])
    assert [month.manifest.month for month in open_months([second.folder, tmp_path / "a"])] == ["2023-11", "2023-12"]
    with pytest.raises(ExportError, match="given twice"):
        open_months([first.folder, tmp_path / "a"])
