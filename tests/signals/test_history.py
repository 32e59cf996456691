"""Both histories: entries once, found by kind, program and mint, dropped by the day."""

from collections.abc import AsyncIterator

import msgspec
import pytest

from actors.signals.history import DAY_MS, HistoryQuery, PostgresSignalHistory, SignalHistory
from actors.signals.log import NO_CURSOR, LogEntry, SignalGap
from tests.databases import emptied
from tests.signals.memory_store import MemorySignalHistory
from tests.signals.test_log import signal

NOW = 20_000 * DAY_MS
NO_SIGNALS = (
    "TRUNCATE signals",
    "UPDATE signals_archived SET cursor_ms = 0, cursor_seq = 0, kept_from_ms = 0",
)


@pytest.fixture(params=["memory", "postgres"])
async def history(request: pytest.FixtureRequest, postgres_url: str, owner_url: str) -> AsyncIterator[SignalHistory]:
    if request.param == "memory":
        yield MemorySignalHistory()
        return
    async with emptied(postgres_url, owner_url, *NO_SIGNALS) as pool:
        yield PostgresSignalHistory(pool)


def entry(number: int, day: int = 0, change: str = "event", kind: str = "newPair") -> LogEntry:
    return LogEntry(f"{NOW + day * DAY_MS}-{number}", change, signal(number, kind=kind))


async def test_entries_are_kept_once_and_in_order(history: SignalHistory) -> None:
    """The archiver that is killed between two steps writes again."""
    entries = [entry(1), entry(2, change="removed"), entry(1, day=1)]
    await history.add(entries)
    await history.add(entries[1:])
    assert await history.read(NO_CURSOR, 10) == entries
    assert await history.read(entries[0].cursor, 1) == entries[1:2]
    assert (await history.archived()).cursor == entries[-1].cursor
    await history.add(entries[:1])
    assert (await history.archived()).cursor == entries[-1].cursor


async def test_entries_are_found_by_what_they_are(history: SignalHistory) -> None:
    other = msgspec.structs.replace(signal(4), program="Q" * 32)
    gap = LogEntry(f"{NOW}-9", "gap", gap=SignalGap(1, 2, "gone"))
    entries = [entry(2), entry(3, kind="largeSwap"), LogEntry(f"{NOW}-4", "event", other), gap]
    await history.add(entries)
    found = {
        "all": await history.read(NO_CURSOR, 10),
        "kind": await history.read(NO_CURSOR, 10, HistoryQuery(kinds=["largeSwap"])),
        "program": await history.read(NO_CURSOR, 10, HistoryQuery(programs=["Q" * 32])),
        "mint": await history.read(NO_CURSOR, 10, HistoryQuery(mint="M2")),
        "time": await history.read(NO_CURSOR, 10, HistoryQuery(until_ms=NOW)),
    }
    assert found == {"all": entries, "kind": entries[1:2], "program": entries[2:3], "mint": entries[:1], "time": []}


async def test_old_days_are_dropped_and_told(history: SignalHistory) -> None:
    """Bounded by age; whoever asks for older entries can be told of the gap."""
    await history.add([entry(1, day=-9), entry(1, day=-3), entry(1)])
    await history.keep(NOW, 5)
    assert [kept.cursor for kept in await history.read(NO_CURSOR, 10)] == [entry(1, day=-3).cursor, entry(1).cursor]
    assert (await history.archived()).kept_from_ms == NOW - 5 * DAY_MS
