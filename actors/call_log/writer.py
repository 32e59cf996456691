"""Writes the calls of this process to the log, once a second, in parts.

Implements: decisions, "Log of calls". A shell. Calls that cannot be written are dropped and counted: a log that kept
them would grow while the store is away, and the ledger has every charge in any case.
"""

import logging

from actors.background import Background
from actors.call_log.core import CallsOfAccount, RecentCalls, of_account
from actors.call_log.store import CallLogStore, CallLogUnavailable
from actors.clock import Clock
from actors.telemetry.metrics import Metrics

logger = logging.getLogger(__name__)

WRITE_SECONDS = 1.0
_PART_CALLS = 200  # About 1 ms of the event loop, with the encoding for the store.


class CallLogWriter:
    """recent: where calls are collected."""

    def __init__(self, store: CallLogStore, clock: Clock, metrics: Metrics) -> None:
        self._store, self._clock, self._metrics = store, clock, metrics
        self.recent = RecentCalls()
        self._is_away = False
        self._background = Background(logger, "writing the log of calls failed")

    def start(self) -> None:
        self._background.repeat(self.write, WRITE_SECONDS)

    async def stop(self) -> None:
        """Write the remaining calls, and end."""
        await self._background.stop()
        await self.write()

    async def write(self) -> None:
        """Write the calls collected so far."""
        now, now_ms = self._clock.monotonic(), self._clock.now_ms()
        part: list[CallsOfAccount] = []
        size = 0
        self._metrics.calls_not_logged.add((), self.recent.left_out)
        self.recent.left_out = 0
        for pubkey, noted in self.recent.take():
            part.append(of_account(pubkey, noted, now, now_ms))
            size += len(noted)
            if size >= _PART_CALLS:
                await self._append(part, size, now_ms)
                part, size = [], 0
        if part:
            await self._append(part, size, now_ms)

    async def _append(self, part: list[CallsOfAccount], size: int, now_ms: int) -> None:
        try:
            await self._store.append(part, now_ms)
            self._is_away = False
        except CallLogUnavailable as error:
            self._metrics.calls_not_logged.add((), size)
            if not self._is_away:
                logger.warning("calls are not logged: %s", error)
            self._is_away = True
