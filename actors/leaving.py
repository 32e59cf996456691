"""Ends the streams of a process that leaves, one after the other, while the process still serves.

Implements: launch/README.md, "A replica that leaves". If all streams ended in one moment, their clients would come back
in one moment, and the processes that stay would refuse some of them. A process that leaves has a time of grace: the
front learns in its first seconds to send it nothing new; then the streams end, evenly spread; and some time remains for
clients that are slow to read the end. Not here: how a stream ends, and where its client continues (each context).
"""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from actors.background import Background
from actors.clock import Clock

logger = logging.getLogger(__name__)

FRONT_SECONDS = 3.0  # Two health checks of the front, one second apart, and a margin for a busy machine.
# Shares of the grace time: when the first stream ends at the latest, and the last one.
_FRONT_SHARE, _LAST_SHARE = 0.4, 0.8
# At 20,000 sockets in 21 s 19 end in a tick, which takes about 2 ms of the loop.
_TICK_SECONDS = 0.02
_PRESENT_SECONDS = 10.0  # At 20,000 sockets 40 end in a tick, in 4 ms.


class LeavingStreams(Protocol):
    """The streams of one kind in this process."""

    @property
    def left(self) -> int:
        """Return how many were not told to end."""
        ...

    def stop_taking(self) -> None:
        """Refuse new streams, without a charge, so that their clients go to another process."""
        ...

    def end_some(self, count: int) -> None:
        """Tell this many of the remaining streams to end."""
        ...


def window(grace_seconds: float) -> tuple[float, float]:
    """Return when the first and the last stream end, in seconds after the beginning of the grace."""
    return min(FRONT_SECONDS, _FRONT_SHARE * grace_seconds), _LAST_SHARE * grace_seconds


def due(ended: int, left: int, share: float) -> int:
    """Return how many more streams must end when this share of the window has passed. Late ones count too."""
    return min(left, max(0, math.ceil((ended + left) * min(1.0, share)) - ended))


class Leaving:
    """Belongs to one event loop."""

    def __init__(self, clock: Clock, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self._clock, self._sleep = clock, sleep
        self._kinds: list[LeavingStreams] = []
        self._background = Background(logger, "the streams of a leaving process could not be ended in turn")
        self.is_leaving = False

    def add(self, *kinds: LeavingStreams) -> None:
        self._kinds += kinds

    def begin(self, grace_seconds: float) -> None:
        """Begin to leave. Repeating it changes nothing."""
        if self.is_leaving:
            return
        self.is_leaving = True
        for kind in self._kinds:
            kind.stop_taking()
        self._background.start(self._end_all(*window(grace_seconds)))

    def end_present(self) -> None:
        """End the streams of now within ten seconds, because this process cannot serve them. It does not leave: new
        ones are taken again when it serves."""
        logger.error("this process is cut off from the cluster; its streams end, so that clients go elsewhere")
        self._background.start(self._end_all(0.0, _PRESENT_SECONDS))

    async def _end_all(self, first: float, last: float) -> None:
        """first, last: when the first stream ends, and the last one, in seconds from now."""
        began = self._clock.monotonic()
        await self._sleep(first)
        ended = [0] * len(self._kinds)
        share = 0.0
        while share < 1.0:
            share = (self._clock.monotonic() - began - first) / max(last - first, _TICK_SECONDS)
            self._end_due(self._kinds, ended, share)
            await self._sleep(_TICK_SECONDS)

    @staticmethod
    def _end_due(kinds: Sequence[LeavingStreams], ended: list[int], share: float) -> None:
        for number, kind in enumerate(kinds):
            count = due(ended[number], kind.left, share)
            if count:
                kind.end_some(count)
                ended[number] += count

    async def stop(self) -> None:
        await self._background.stop()
