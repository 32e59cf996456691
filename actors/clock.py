"""The only place that reads time.

Implements: house rule "time and randomness are arguments". Shells hold a Clock; pure code takes numbers.
"""

import time
from typing import Protocol

from actors.units import UnixMillis, UnixSeconds


class Clock(Protocol):
    def now(self) -> UnixSeconds:
        """Return the wall clock as Unix seconds, rounded down."""
        ...

    def now_ms(self) -> UnixMillis:
        """Return the wall clock as Unix milliseconds."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never jump; for durations and deadlines only."""
        ...


class SystemClock:
    def now(self) -> UnixSeconds:
        return int(time.time())  # type: ignore[return-value]  # Without NewType's call, as every request reads it.

    def now_ms(self) -> UnixMillis:
        return time.time_ns() // 1_000_000  # type: ignore[return-value]

    monotonic = staticmethod(time.monotonic)

    thread_seconds = staticmethod(time.thread_time)  # Processor time of the calling thread, without its waits.

    process_seconds = staticmethod(time.process_time)  # Of all threads of this process.


class ManualClock:
    """A clock for tests that stands still until a test advances it.

    ahead_seconds: how far the wall clock is set ahead of the true time (below 0: behind). Tests change it to set the
    wall clock; the monotonic clock does not move with it.
    """

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms
        self.ahead_seconds = 0

    def now(self) -> UnixSeconds:
        return UnixSeconds(self.now_ms() // 1000)

    def now_ms(self) -> UnixMillis:
        return UnixMillis(self._now_ms + self.ahead_seconds * 1000)

    def monotonic(self) -> float:
        return self._now_ms / 1000

    def advance(self, seconds: float) -> None:
        assert seconds >= 0, seconds
        self._now_ms += round(seconds * 1000)
