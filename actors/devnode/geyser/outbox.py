"""What waits to be sent to one subscriber, within bounds.

Implements: a subscriber that reads too slowly still gets what waits for it, and then the stream ends, as upstream: at
more than UPDATES_MAX updates or BYTES_MAX bytes. A replay may be longer than that: it was asked for, and is bounded
by what is kept of the past; so it does not count.
Not here: the wire (service.py), what is put in (subscription.py).
"""

import asyncio
import logging
from collections import deque

from actors.devnode.geyser.refusals import BROKEN, LAGGED_SENDING, End

logger = logging.getLogger("devnode")

UPDATES_MAX = 250_000  # Upstream's default.
BYTES_MAX = 256 * 1024 * 1024


class Ended(Exception):
    """All that waited has been sent, and nothing more will come."""

    def __init__(self, end: End) -> None:
        super().__init__(end.text)
        self.end = end


class Outbox:
    def __init__(self, updates_max: int = UPDATES_MAX, bytes_max: int = BYTES_MAX) -> None:
        self._updates_max, self._bytes_max = updates_max, bytes_max
        self._queue: deque[tuple[bytes, bytes]] = deque()
        self._bytes = 0  # Of what counts; replayed updates stand before it.
        self._replayed = 0
        self._end: End | None = None
        self._wake = asyncio.Event()

    def __len__(self) -> int:
        """Updates that wait."""
        return len(self._queue)

    @property
    def is_ended(self) -> bool:
        return self._end is not None

    def put(self, head: bytes, body: bytes) -> None:
        """Never waits. Both parts may be shared with others; they are put together when they are sent."""
        if self._end is not None:
            return
        size = len(head) + len(body)
        if len(self._queue) - self._replayed >= self._updates_max or self._bytes + size > self._bytes_max:
            self.end(LAGGED_SENDING)
            return
        self._bytes += size
        self._queue.append((head, body))
        self._wake.set()

    def put_replayed(self, head: bytes, body: bytes) -> None:
        """Before anything is put otherwise after it; what was put before the replay counts no more from here on."""
        if self._end is None:
            self._queue.append((head, body))
            self._replayed, self._bytes = len(self._queue), 0
            self._wake.set()

    def end(self, end: End) -> None:
        """After what waits, the stream ends so. The first end is the one that counts."""
        if self._end is None:
            self._end = end
            self._wake.set()

    def follow(self, task: asyncio.Task[None]) -> None:
        """If the task fails, the stream ends: a subscriber that waits for ever would be worse."""
        task.add_done_callback(self._followed)

    def _followed(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            logger.error("a gRPC stream broke", exc_info=error)
            self.end(BROKEN)

    async def next(self) -> bytes:
        """The next update; raises Ended."""
        while not self._queue:
            if self._end is not None:
                raise Ended(self._end)
            self._wake.clear()
            await self._wake.wait()
        head, body = self._queue.popleft()
        if self._replayed:
            self._replayed -= 1
        else:
            self._bytes -= len(head) + len(body)
        return head + body
