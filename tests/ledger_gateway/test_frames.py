"""Ledger and usage as frames, and the ledger as a file, from the real door."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ledger_gateway import frames
from ledger_gateway.errors import BadRequest
from ledger_gateway.records import LedgerEntry, Usage, UsageRow, UsageTotals

from .world import a_gateway

HUGE = 2**53 + 1  # The first whole number that a float of 64 bits does not have.
ENTRIES = [
    LedgerEntry("debit", -1, HUGE, "getSlot", "2026-11-28T19:00:00.123Z", 2, "getSlot", "answered", key=None),
    LedgerEntry("refund", 1, HUGE + 1, "getSlot", "2026-11-28T19:00:00.123Z", 1, "getSlot", key=3),
]
AT = datetime(2026, 11, 28, 19, 0, 0, 123_000, UTC)
USAGE = Usage(
    "2026-11-28T19:00:00Z",
    "2026-11-28T20:00:00Z",
    ["method", "hour"],
    [UsageRow(HUGE, 5, "getSlot", "2026-11-28T19:00:00Z")],
    UsageTotals(HUGE, 5),
)


def rows_of(library: str, frame: Any) -> list[dict[str, Any]]:
    if library == "arrow":
        return list(frame.to_pylist())
    if library == "polars":
        return list(frame.to_dicts())
    return [
        {name: None if value is None or value != value else value for name, value in row.items()}
        for row in frame.astype(object).where(frame.notna(), None).to_dict("records")
    ]


@pytest.mark.parametrize(("library", "module"), [("pandas", "pandas"), ("polars", "polars"), ("arrow", "pyarrow")])
def test_frames_are_exact(library: str, module: str) -> None:
    """Rule: money is integers: a number beside a missing one, too; times are moments; no rows have the same types."""
    pytest.importorskip(module)
    to_frame = getattr(frames, f"ledger_to_{library}")
    first, second = rows_of(library, to_frame(ENTRIES))
    assert (first["balance"], first["key"], second["key"]) == (HUGE, None, 3) and first["timestamp"] == AT
    assert (first["method"], first["signature"]) == ("getSlot", None)
    empty, full = to_frame([]), to_frame(ENTRIES)
    types = [list(map(str, frame.schema.types if library == "arrow" else frame.dtypes)) for frame in (empty, full)]
    assert types[0] == types[1]
    (row,) = rows_of(library, getattr(frames, f"usage_to_{library}")(USAGE))
    assert row == {"method": "getSlot", "hour": datetime(2026, 11, 28, 19, tzinfo=UTC), "calls": HUGE, "credits": 5}


def test_who_lacks_a_library_is_told_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(frames, "import_module", missing)
    for make, wanted in ((frames.ledger_to_pandas, "data"), (frames.ledger_to_polars, "pip install polars")):
        with pytest.raises(ImportError, match=wanted):
            make(ENTRIES)


async def test_a_whole_ledger_is_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where it is several groups of rows; what could not be written leaves no file, and none is overwritten."""
    parquet = pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr(frames, "_GROUP_ROWS", 2)
    file = tmp_path / "ledger.parquet"
    async with a_gateway() as served:
        customer = await served.world.customer(10)
        async with served.gateway(customer.api_key) as gateway:
            for _ in range(3):
                await gateway.call("getSlot")
            assert await frames.write_ledger(gateway, file, type="debit") == 3
            with pytest.raises(FileExistsError):
                await frames.write_ledger(gateway, file)
            with pytest.raises(BadRequest):
                await frames.write_ledger(gateway, tmp_path / "none.parquet", type="gift")
            entries = [entry async for entry in gateway.ledger_entries(type="debit")]
    table = parquet.read_table(file)
    assert parquet.ParquetFile(file).num_row_groups == 2 and not (tmp_path / "none.parquet").exists()
    assert table.equals(frames.ledger_to_arrow(entries)) and table["amount"].to_pylist() == [-1, -1, -1]
    assert all(table["request_id"].to_pylist()) and all(table["operation"].to_pylist())
