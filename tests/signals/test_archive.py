"""The history gets every entry of the log, and the log loses none that the history lacks."""

from actors.clock import ManualClock
from actors.signals.archive import PAGE_MAX, SignalArchive
from actors.signals.history import DAY_MS
from actors.signals.log import NO_CURSOR
from tests.signals.memory_store import MemorySignalHistory, MemorySignalLog
from tests.signals.test_log import put, signal


def _archive(log: MemorySignalLog, history: MemorySignalHistory, clock: ManualClock) -> SignalArchive:
    return SignalArchive(log, history, clock, stream_hours=24, history_days=30)


async def test_every_entry_is_copied_once_whoever_copies() -> None:
    """A second archive, or the next one after a kill, changes nothing."""
    log, history, clock = MemorySignalLog(), MemorySignalHistory(), ManualClock()
    await put(log, [signal(number) for number in range(PAGE_MAX + 5)], 0)
    first, second = _archive(log, history, clock), _archive(log, history, clock)
    assert [await first.copy(), await second.copy(), await first.copy()] == [PAGE_MAX, 5, 0]
    assert await history.read(NO_CURSOR, 5_000) == await log.read(NO_CURSOR, 5_000)


async def test_the_stream_loses_nothing_that_the_history_lacks() -> None:
    """PostgreSQL was away for days: what is old and not archived stays."""
    log, history, clock = MemorySignalLog(), MemorySignalHistory(), ManualClock()
    await put(log, [signal(1)], 0)
    clock.advance(3 * DAY_MS / 1000)
    archive = _archive(log, history, clock)
    await archive.keep()
    assert len(await log.read(NO_CURSOR, 5)) == 1
    await archive.copy()
    clock.advance(601)
    await put(log, [signal(2)], 0)
    await archive.keep()
    assert len(await history.read(NO_CURSOR, 5)) == 1
