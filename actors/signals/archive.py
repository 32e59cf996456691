"""Copies the log into the history, and keeps both within their bounds.

Implements: decisions, "cursors and gaps" (history beyond the stream). A shell; every step may be repeated. The stream
is trimmed by age only up to what the history has. One process does this; a second one would write the same rows again.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from actors.background import Background
from actors.clock import Clock
from actors.signals.history import HistoryUnavailable, SignalHistory
from actors.signals.log import SignalLog, SignalLogUnavailable, cursor_key

logger = logging.getLogger(__name__)

PAGE_MAX = 1_000
_PAUSE_SECONDS = 1.0
_KEEP_SECONDS = 600


class SignalArchive:
    def __init__(
        self,
        log: SignalLog,
        history: SignalHistory,
        clock: Clock,
        *,
        stream_hours: int,
        history_days: int,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._log, self._history, self._clock, self._sleep = log, history, clock, sleep
        self._stream_ms, self._days = stream_hours * 3_600_000, history_days
        self._keep_at = 0
        self.fault = ""
        self._background = Background(logger, "the archive of signals failed")

    def start(self) -> None:
        self._background.repeat(self._round, _PAUSE_SECONDS, self._sleep)

    async def stop(self) -> None:
        await self._background.stop()

    async def _round(self) -> None:
        try:
            while await self.copy() == PAGE_MAX:
                pass
            await self.keep()
            self.fault = ""
        except (SignalLogUnavailable, HistoryUnavailable) as error:
            self.fault = str(error)
            logger.warning("signals are not archived: %s", error)
        except Exception as error:  # Recorded for health; `repeat` logs it, and continues.
            self.fault = f"{type(error).__name__}: {error}"
            raise

    async def copy(self) -> int:
        """Copy one page of the log; returns its length."""
        entries = await self._log.read((await self._history.archived()).cursor, PAGE_MAX)
        await self._history.add(entries)
        return len(entries)

    async def keep(self) -> None:
        """Drop data that is too old, once in ten minutes."""
        if self._clock.now() < self._keep_at:
            return
        self._keep_at = self._clock.now() + _KEEP_SECONDS
        await self._history.keep(self._clock.now_ms(), self._days)
        archived_ms, _ = cursor_key((await self._history.archived()).cursor)
        await self._log.trim(min(self._clock.now_ms() - self._stream_ms, archived_ms))
