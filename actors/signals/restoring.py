"""Restores a log that Redis has lost, from the history and the memory of classifiers.

Implements: decisions, "cursors and gaps", "one signal", for a Redis that comes back empty. A shell; doing it again
changes nothing.
The newest entries come back with their cursors, so that old cursors go on where they were, new cursors are later ones,
and a signal that is read from the chain again is known. The classifiers then read again from the restored positions.
Entries that were in Redis alone, and that no living classifier wrote, come back with another cursor; the history is a
second behind at most while PostgreSQL answers.
"""

import logging
from collections.abc import Sequence

from actors.signals.history import SignalHistory
from actors.signals.log import LogEntry, SignalLog, cursor_key
from actors.signals.positions import RESTORED, Claim

logger = logging.getLogger(__name__)

TAIL_MS = 600_000  # A transaction cannot land again later than two minutes after it was first seen.
TAIL_MAX = 20_000
AGAIN_SLOTS = 150  # Before the newest known signal: longer than any slot of before can stay without a final state.
_PAGE = 1_000


async def restore(log: SignalLog, history: SignalHistory, written: Sequence[LogEntry], known: Claim | None) -> None:
    """Restore the log, and the slot after which each part is read again; none in a new installation.

    written: the newest entries that this classifier wrote, oldest first. known: its claim, where it lives.
    Raises SignalLogUnavailable and HistoryUnavailable; the log is not whole then.
    """
    archived = (await history.archived()).cursor
    await history.add([entry for entry in written if cursor_key(entry.cursor) > cursor_key(archived)])
    entries = await _tail(history)
    slots = [entry.event.slot for entry in entries if entry.event is not None]
    # Not before the oldest known signal: a younger chain has no such slots, and they are no gap.
    again = max(0, max(slots, default=0) - AGAIN_SLOTS, min(slots, default=0) - 1)
    # Other parts begin there as well, but for those whose own classifier lives and remembers more (positions.arrange).
    positions = {RESTORED: again} | ({} if known is None else {str(known.part): known.position})
    await log.restore({name: slot for name, slot in positions.items() if slot}, entries)
    if entries:
        logger.warning("the log of signals is restored: %d entries, read again after slot %d", len(entries), again)


async def _tail(history: SignalHistory) -> list[LogEntry]:
    newest_ms, _ = cursor_key((await history.archived()).cursor)
    cursor, found = f"{max(0, newest_ms - TAIL_MS)}-0", list[LogEntry]()
    while page := await history.read(cursor, _PAGE):
        found += page
        cursor = page[-1].cursor
    return found[-TAIL_MAX:]
