"""Where entries after a cursor come from, and what is said to be lost."""

from actors.signals.log import NO_CURSOR, LogEntry, cursor_key
from actors.signals.replays import ReplayPage, Replays
from tests.signals.memory_store import MemorySignalHistory, MemorySignalLog
from tests.signals.test_log import put, signal


async def _stores(archived: int, trimmed: int) -> tuple[MemorySignalLog, MemorySignalHistory, list[LogEntry]]:
    log, history = MemorySignalLog(), MemorySignalHistory()
    await put(log, [signal(number) for number in range(10)], 0)
    entries = list(log.entries)
    await history.add(entries[:archived])
    log.entries = entries[trimmed:]
    return log, history, entries


async def test_memory_stream_and_history_give_the_same_entries() -> None:
    """Whichever has them."""
    for ring_from in (0, 3, 8, 10):
        log, history, entries = await _stores(archived=8, trimmed=5)
        replays = Replays(log, history)
        if ring_from < len(entries):
            replays.ring.begin_after(entries[ring_from].cursor, is_end=False)
        for entry in entries[ring_from:]:
            replays.ring.append(entry)
        cursor, got = entries[0].cursor, [entries[0]]
        while page := await replays.after(cursor, 3):
            if not page.entries:
                break
            assert page.lost_until is None
            got += page.entries
            cursor = got[-1].cursor
        assert got == entries


async def test_what_was_trimmed_before_it_was_archived_is_lost_and_said() -> None:
    """The stream overflowed while PostgreSQL was away."""
    log, history, entries = await _stores(archived=2, trimmed=6)
    page = await Replays(log, history).after(entries[0].cursor, 100)
    assert page.entries == entries[1:2] and page.lost_until is None
    assert await Replays(log, history).after(entries[1].cursor, 100) == ReplayPage(entries[6:], entries[6].cursor)


async def test_dropped_days_are_lost_and_said() -> None:
    log, history, entries = await _stores(archived=10, trimmed=10)
    history.kept_from_ms = cursor_key(entries[0].cursor)[0]
    page = await Replays(log, history).after("5-0", 100)
    assert page.entries == entries and page.lost_until == f"{history.kept_from_ms}-0"
    assert (await Replays(log, history).after(NO_CURSOR, 100)).lost_until is None
