"""Measures how long the rounds of an event loop last: while a round lasts, the loop answers nobody else.

A timer is set again and again. The round of the loop that is under way when the timer is due delays it, so its lateness
is what a client's bytes would have waited at that moment. A round is one long callback, or many short ones that were
ready together. A round is measured too short by up to the time between two ticks.

A timer and not a hook around each callback: Ray's loops are uvloop's, which runs callbacks outside Python. The ticks of
an idle process take 0.5 to 0.9 % of a core when they are 5 ms apart, and 0.25 to 0.4 % when they are 20 ms apart,
because each wakes the process; in a busy loop a tick is 3 µs. So a loop that has done next to nothing for ten seconds
is looked at four times a second. The first round that works after that is measured too short by up to 0.25 s; from the
next tick on the watch is awake again.
Not here: what lateness means (loop_lateness.py), the page (metrics_page.py).
"""

import asyncio
from typing import Final, Protocol

from actors.clock import SystemClock
from actors.telemetry.loop_lateness import RecentMaximum, split
from actors.telemetry.metrics import Metrics

SERVING_TICK_SECONDS: Final = 0.005  # Of the loops that calls wait for. A round of 20 ms is seen as at least 15.
TICK_SECONDS: Final = 0.02  # Of the other loops: mostly idle, so that each tick wakes a process.
_ASLEEP_TICK_SECONDS: Final = 0.25
_AWAKE_SECONDS: Final = 10.0  # After the latest tick in which the loop's thread worked for as long as this:
_WORK_SECONDS: Final = 0.01  # Above what collecting the process's own figures takes, every two seconds.


class LoopClock(Protocol):
    def monotonic(self) -> float: ...

    def thread_seconds(self) -> float:
        """Return the processor time of the calling thread."""
        ...


class LoopWatch:
    """Watches the running loop from `start` to `stop`; tells the metrics of its process."""

    def __init__(self, metrics: Metrics, tick_seconds: float = TICK_SECONDS, clock: LoopClock | None = None) -> None:
        self._metrics, self._tick_seconds, self._clock = metrics, tick_seconds, clock or SystemClock()
        self._held, self._stalled = RecentMaximum(), RecentMaximum()
        self._due = self._worked_before = self._awake_until = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        held, stalled, now = self._held, self._stalled, self._clock.monotonic
        text = "Longest event_loop_{}_seconds of the last minute."
        self._metrics.watch("event_loop_held_max_seconds", text.format("held"), lambda: held.value(now()))
        self._metrics.watch("event_loop_stalled_max_seconds", text.format("stalled"), lambda: stalled.value(now()))
        self._awake_until = now() + _AWAKE_SECONDS
        self._set_timer(now(), self._clock.thread_seconds())

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tick(self) -> None:
        now, worked = self._clock.monotonic(), self._clock.thread_seconds()
        held, stalled = split(now - self._due, worked - self._worked_before)
        self._metrics.loop_held_seconds.observe(held)
        self._metrics.loop_stalled_seconds.observe(stalled)
        self._held.add(held, now)
        self._stalled.add(stalled, now)
        if worked - self._worked_before >= _WORK_SECONDS:
            self._awake_until = now + _AWAKE_SECONDS
        self._set_timer(now, worked)

    def _set_timer(self, now: float, worked: float) -> None:
        seconds = self._tick_seconds if now < self._awake_until else max(self._tick_seconds, _ASLEEP_TICK_SECONDS)
        self._due, self._worked_before = now + seconds, worked
        self._timer = asyncio.get_running_loop().call_later(seconds, self._tick)
