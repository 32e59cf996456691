"""Explains why a timer of an event loop was late, and keeps the maximum of the last minute.

Pure. Not here: the timer (loop_watch.py).
"""

from collections import deque
from typing import Final, NamedTuple

RECENT_SECONDS: Final = 60.0
_SLICE_SECONDS: Final = 1.0


class Lateness(NamedTuple):
    """In seconds. held: by work of the loop's thread; stalled: while that thread did not work."""

    held: float
    stalled: float


def split(late: float, worked: float) -> Lateness:
    """Divide the lateness of a timer; both arguments in seconds.

    worked: processor time that the loop's thread took since the timer was set. Work from before the timer was due is in
    it too. `held` is therefore too long by at most the time that the timer ran, and only where the thread also waited.
    """
    late = max(0.0, late)
    held = min(late, max(0.0, worked))
    return Lateness(held, late - held)


class RecentMaximum:
    """The largest value of the last minute, give or take a second. now: monotonic seconds, which never fall."""

    def __init__(self) -> None:
        self._slices: deque[tuple[int, float]] = deque()  # Of each second with a value above 0: the largest one.

    def add(self, value: float, now: float) -> None:
        if value <= 0:
            return
        current = int(now / _SLICE_SECONDS)
        if self._slices and self._slices[-1][0] == current:
            self._slices[-1] = (current, max(value, self._slices[-1][1]))
            return
        self._slices.append((current, value))
        self._drop_old(now)

    def value(self, now: float) -> float:
        self._drop_old(now)
        return max((value for _, value in self._slices), default=0.0)

    def _drop_old(self, now: float) -> None:
        oldest = int((now - RECENT_SECONDS) / _SLICE_SECONDS)
        while self._slices and self._slices[0][0] < oldest:
            self._slices.popleft()
