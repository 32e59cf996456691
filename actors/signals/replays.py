"""Reads entries after any cursor, from memory, the stream or the history, and reports entries that none of them has.

Implements: decisions, "cursors and gaps". A shell over the stores; the ring holds the newest entries of this process.
"""

from collections.abc import Sequence
from typing import NamedTuple

from actors.signals.history import SignalHistory
from actors.signals.log import NO_CURSOR, LogEntry, SignalLog, cursor_key
from actors.signals.ring import SignalRing


class ReplayPage(NamedTuple):
    """entries: oldest first. lost_until: entries before this cursor, and after the one asked for, are gone."""

    entries: Sequence[LogEntry]
    lost_until: str | None = None


class Replays:
    def __init__(self, log: SignalLog, history: SignalHistory) -> None:
        self._log, self._history = log, history
        self.ring = SignalRing()

    async def newest(self) -> str:
        """Return the cursor of the newest entry. Raises SignalLogUnavailable and HistoryUnavailable."""
        latest = await self._log.latest(1)
        return latest[0].cursor if latest else (await self._history.archived()).cursor

    async def after(self, cursor: str, count: int) -> ReplayPage:
        """Raises SignalLogUnavailable and HistoryUnavailable."""
        wanted = cursor_key(cursor)
        number = self.ring.number_after(cursor)
        if number is not None and self.ring.last != NO_CURSOR:
            until = min(number + count, self.ring.following)
            return ReplayPage([self.ring.at(each).entry for each in range(number, until)])
        oldest = await self._log.oldest()
        if oldest is not None and cursor_key(oldest) <= wanted:
            return ReplayPage(await self._log.read(cursor, count))
        archived = await self._history.archived()
        lost_until = None
        if wanted[0] < archived.kept_from_ms and wanted != (0, 0):
            lost_until = f"{archived.kept_from_ms}-0"
        if entries := await self._history.read(cursor, count):
            return ReplayPage(entries, lost_until)
        if oldest is None:
            return ReplayPage((), lost_until)
        # Trimming by age leaves the last archived entry in the stream: only an overflow makes it begin later.
        if wanted != (0, 0) and archived.cursor != NO_CURSOR and cursor_key(archived.cursor) < cursor_key(oldest):
            lost_until = oldest
        return ReplayPage(await self._log.read(cursor, count), lost_until)
