"""Restoring a lost log: where the chain is read again, and what the living classifier alone knows."""

from actors.signals.log import NO_CURSOR, LogEntry
from actors.signals.positions import RESTORED, Claim, Division
from actors.signals.restoring import AGAIN_SLOTS, restore
from tests.signals.memory_store import MemorySignalHistory, MemorySignalLog
from tests.signals.test_log import signal


async def test_the_chain_is_read_again_from_a_slot_that_is_surely_final() -> None:
    """A living classifier knows its position; without one, the newest known signal tells."""
    for known, first, expected in ((990, 995, 990), (0, 995, 994), (0, 5, 1_000 - AGAIN_SLOTS)):
        log, history = MemorySignalLog(), MemorySignalHistory()
        await history.add([LogEntry("5-1", "event", signal(1, slot=first))])
        written = [LogEntry("5-1", "event", signal(1, slot=first)), LogEntry("5-2", "event", signal(2, slot=1_000))]
        log.lose_everything()
        division = Division(5, 2)
        await restore(log, history, written, Claim(division, 1, 3, known) if known else None)
        assert log.fields[RESTORED] == str(994 if first == 995 else expected), "for the other parts"
        assert (await log.claim(1, 2, Claim(division, 1, 3, known))).position == expected
        assert await log.read(NO_CURSOR, 9) == written == await history.read(NO_CURSOR, 9)


async def test_a_new_installation_begins_now() -> None:
    """Nothing was ever known, so there is nothing to read again."""
    log = MemorySignalLog()
    log.lose_everything()
    await restore(log, MemorySignalHistory(), [], None)
    assert await log.is_whole() and not log.fields
