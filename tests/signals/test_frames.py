"""The reading side of the history: what is on the chain, in three forms."""

from pathlib import Path

import msgspec
import pytest

from actors.signals import frames
from actors.signals.log import LogEntry, SignalGap
from tests.signals.memory_store import MemorySignalHistory
from tests.signals.test_log import signal


async def _history() -> MemorySignalHistory:
    history = MemorySignalHistory()
    large = msgspec.structs.replace(signal(3, kind="largeSwap"), lamports=(1 << 63) + 5)
    await history.add(
        [
            LogEntry("1000-1", "event", signal(1)),
            LogEntry("2000-1", "event", signal(2)),
            LogEntry("2000-2", "gap", gap=SignalGap(1, 2, "gone")),
            LogEntry("3000-1", "event", large),
            LogEntry("4000-1", "removed", signal(1)),
            LogEntry("5000-1", "moved", signal(2, slot=777)),
        ]
    )
    return history


async def test_rows_are_what_the_chain_has() -> None:
    """Corrections are applied, whatever page they are on."""
    found = await frames.events(await _history())
    assert [(row["mint"], row["slot"], row["time_ms"]) for row in found] == [("M2", 777, 2000), ("M3", 100, 3000)]


async def test_events_are_found_by_kind_mint_and_time() -> None:
    history = await _history()
    assert [row["mint"] for row in await frames.events(history, kinds=["largeSwap"])] == ["M3"]
    assert [row["mint"] for row in await frames.events(history, mint="M2")] == ["M2"]
    assert [row["mint"] for row in await frames.events(history, from_ms=2000, until_ms=3000)] == ["M2"]
    assert [row["mint"] for row in await frames.events(history, from_ms=2001, until_ms=3001)] == ["M3"]


async def test_all_forms_keep_whole_numbers_and_types(tmp_path: Path) -> None:
    """A float would lose lamports; an empty result has the same columns."""
    pandas, parquet = pytest.importorskip("pandas"), pytest.importorskip("pyarrow.parquet")
    found = await frames.events(await _history())
    frame = frames.to_pandas(found)
    assert frame["lamports"].iloc[1] == (1 << 63) + 5 and frame["lamports"].iloc[0] is pandas.NA
    frames.to_parquet(found, tmp_path / "signals.parquet")
    assert parquet.read_table(tmp_path / "signals.parquet").to_pylist() == found
    assert frames.to_arrow([]).schema == frames.to_arrow(found).schema
    assert list(frames.to_pandas([]).columns) == list(frame.columns)
