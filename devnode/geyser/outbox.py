"""The bounded queue of updates for one subscriber.

Implements: as in Yellowstone, a subscriber that reads too slowly gets the queued updates, and then its stream ends: at
more than UPDATES_MAX updates or BYTES_MAX bytes. Replayed updates do not count, because the logs of past slots bound
them.
Not here: gRPC (service.py), which updates are queued (replays.py).
"""

import asyncio
import logging
from collections import deque

from devnode.geyser.refusals import BROKEN, LAGGED_SENDING, End

logger = logging.getLogger("devnode")

UPDATES_MAX = 250_000  # Yellowstone's default.
BYTES_MAX = 256 * 1024 * 1024


class Ended(Exception):
    """All queued updates are sent, and the stream has ended."""

    def __init__(self, end: End) -> None:
        super().__init__(end.text)
        self.end = end


class Outbox:
    def __init__(self, updates_max: int = UPDATES_MAX, bytes_max: int = BYTES_MAX) -> None:
        self._updates_max, self._bytes_max = updates_max, bytes_max
        self._queue: deque[tuple[bytes, bytes]] = deque()
        self._bytes = 0  # Of the updates behind the replayed ones.
        self._replayed = 0  # Updates at the front that do not count.
        self._end: End | None = None
        self._wake = asyncio.Event()

    def __len__(self) -> int:
        """The number of queued updates."""
        return len(self._queue)

    @property
    def is_ended(self) -> bool:
        return self._end is not None

    def put(self, head: bytes, body: bytes) -> None:
        """Queue an update; never waits. Both parts may be shared with other subscribers; `next` joins them."""
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
        """Queue an update of a replay. It does not count, and neither do the updates queued before it."""
        if self._end is None:
            self._queue.append((head, body))
            self._replayed, self._bytes = len(self._queue), 0
            self._wake.set()

    def end(self, end: End) -> None:
        """End the stream after the queued updates; only the first call counts."""
        if self._end is None:
            self._end = end
            self._wake.set()

    def cut(self, end: End) -> None:
        """End the stream without the queued updates, as a broken connection does."""
        self._queue.clear()
        self._bytes = self._replayed = 0
        self.end(end)

    def end_on_failure(self, task: asyncio.Task[None]) -> None:
        """End the stream if the task fails; otherwise its subscriber would wait for ever."""
        task.add_done_callback(self._task_done)

    def _task_done(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            logger.error("a gRPC stream broke", exc_info=error)
            self.end(BROKEN)

    async def next(self) -> bytes:
        """Wait for the next update; raises Ended."""
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
