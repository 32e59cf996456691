"""The bounded queue of updates for one client of the Yellowstone stream.

Implements: a client that does not read costs a bounded amount of memory. When the queue is full, what waits in it is
dropped, and the stream ends with RESOURCE_EXHAUSTED and the last slot that was sent.
Writes of all clients are spread over the passes of the loop (yellowstone/pace.py), and a large update is joined beside
it. Not here: gRPC (yellowstone/stream.py), which updates are queued, limits of all queues together
(yellowstone/queues.py).
"""

import asyncio
from collections import deque
from collections.abc import Callable

from actors.grpc_http2.links import joined
from actors.streams.yellowstone import ends as geyser_ends
from actors.streams.yellowstone.ends import StreamEnd
from actors.streams.yellowstone.pace import GeyserPace, units_to_write
from actors.streams.yellowstone.queues import GeyserQueues

_UNLIMITED = 1 << 62


class StreamEnded(Exception):
    """Nothing is left to send, and the stream has ended."""

    def __init__(self, end: StreamEnd) -> None:
        super().__init__(end.text)
        self.end = end


class GeyserOutbox:
    """queues, pace: of all streams of the replica; None: it is alone. account: whose stream it is."""

    def __init__(
        self,
        updates_max: int,
        bytes_max: int,
        queues: GeyserQueues | None = None,
        account: bytes = b"",
        pace: GeyserPace | None = None,
    ) -> None:
        self._pace = pace or GeyserPace()
        self._is_idle = self._asks = self._has_turn = False  # idle: `next` waits. Only `next` asks for a turn.
        self._updates_max, self._bytes_max = updates_max, bytes_max
        self._queues, self.account = queues or GeyserQueues(_UNLIMITED, _UNLIMITED), account
        self.behind_bytes = 0  # Bytes of all updates but the first, and of those that the reader keeps.
        self._kept_bytes = 0
        self._queue: deque[tuple[int | None, bytes, bytes]] = deque()
        self._bytes = 0
        self._end: StreamEnd | None = None
        self._wake = asyncio.Event()
        self._has_room = asyncio.Event()
        self.last_slot: int | None = None  # Slot of the last update handed out.
        self.on_end: Callable[[StreamEnd, bool], None] | None = None  # Called once. True: waiting updates are not sent.

    def __len__(self) -> int:
        """How many updates wait."""
        return len(self._queue)

    @property
    def is_ended(self) -> bool:
        return self._end is not None

    @property
    def waiting_bytes(self) -> int:
        return self._bytes

    def put(self, slot: int | None, head: bytes, body: bytes) -> None:
        """Queue an update; never waits. body may be shared with other clients; `next` joins both parts."""
        if self._end is not None:
            return
        size = len(head) + len(body)
        # One update may be larger than the limit: a block.
        if self._queue and (len(self._queue) >= self._updates_max or self._bytes + size > self._bytes_max):
            self.give_up(f"{len(self._queue):,} updates or {self._bytes:,} bytes")
            return
        is_behind = bool(self._queue)
        self._bytes += size
        self._queue.append((slot, head, body))
        if self._is_idle:
            self._ask_for_turn()
        if is_behind:
            self._count(size)

    def keep(self, size: int) -> bool:
        """Count bytes that the reader keeps for this queue, or has given back (size below 0). False: it has ended."""
        self._kept_bytes += size
        self._count(size)
        return self._end is None

    def give_up(self, limit: str) -> None:
        """Drop the waiting updates and end the stream, because its client reads too slowly."""
        self._drop()
        self._finish(geyser_ends.too_slow(self.last_slot, limit), True)

    def close(self) -> None:
        """Drop the waiting updates and accept no more: the client has left."""
        self._drop()
        self._end = self._end or geyser_ends.SHUTTING_DOWN

    def _drop(self) -> None:
        self._queue.clear()
        self._bytes = 0
        self._count(self._kept_bytes - self.behind_bytes)

    def _count(self, size: int) -> None:
        if size:
            self.behind_bytes += size
            self._queues.change(self, size)

    async def room(self) -> None:
        """Wait while the queue is half full; for a sender of many past updates. Lets other tasks run once."""
        await asyncio.sleep(0)
        while self._end is None and not self._is_half_empty():
            self._has_room.clear()
            await self._has_room.wait()

    def _is_half_empty(self) -> bool:
        return len(self._queue) <= self._updates_max // 2 and self._bytes <= self._bytes_max // 2

    def end(self, end: StreamEnd, at_once: bool = False) -> None:
        """End the stream after what is queued; only the first call counts. at_once: what is queued is dropped."""
        if self._end is None:
            if at_once:
                self._drop()
            self._finish(end, at_once)

    def _finish(self, end: StreamEnd, is_hurried: bool) -> None:
        self._end = end
        self._wake.set()
        self._has_room.set()
        if self.on_end is not None:
            self.on_end(end, is_hurried)

    def _ask_for_turn(self) -> None:
        """Ask for the turn to write the first update. The turn is kept if the queue is dropped before it comes."""
        if self._asks or self._has_turn:
            return
        _, head, body = self._queue[0]
        units = units_to_write(len(head) + len(body))
        if self._pace.has_room(units):
            self._take_turn()
        else:
            self._asks = True
            self._pace.wait(units, self._take_turn)

    def _take_turn(self) -> None:
        self._asks, self._has_turn = False, True
        self._wake.set()

    async def next(self) -> bytes:
        """Wait for the next update, and for its turn to be written; raises StreamEnded."""
        if self._queue:
            self._ask_for_turn()
        while not (self._queue and self._has_turn):
            if not self._queue and self._end is not None:
                raise StreamEnded(self._end)
            self._wake.clear()
            self._is_idle = True
            await self._wake.wait()
            self._is_idle = False
        self._has_turn = False
        slot, head, body = self._queue.popleft()
        self._bytes -= len(head) + len(body)
        if self._queue:
            _, next_head, next_body = self._queue[0]
            self._count(-len(next_head) - len(next_body))
        if not self._has_room.is_set() and self._is_half_empty():
            self._has_room.set()
        if slot is not None:
            self.last_slot = slot
        return await joined((head, body))
