"""Limits the bytes of large answers that this process holds at once.

Implements: large answers (memory is bounded, however many are requested at once).

client.py claims the bytes of an answer when it knows the length, and reads the body only after the claim is granted.
The bytes are given back when the last holder drops the answer. Claims are granted in their order, so that small answers
cannot delay a large one for ever.
"""

import asyncio
from collections import deque

LARGE_BYTES = 1 << 20  # The number of calls in flight bounds the memory of smaller answers.


class MemoryBudget:
    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = self.bytes_free = bytes_max
        self._queue: deque[tuple[int, asyncio.Future[None]]] = deque()

    async def claim(self, size: int) -> int:
        """Wait until `size` bytes are free, take them, and return their number."""
        assert 0 < size <= self.bytes_max, size
        if not self._queue and size <= self.bytes_free:
            self.bytes_free -= size
            return size
        waiting = size, asyncio.get_running_loop().create_future()
        self._queue.append(waiting)
        try:
            await waiting[1]
        except BaseException:
            if waiting in self._queue:
                self._queue.remove(waiting)
                self._grant()
            else:  # The claim was granted in the moment in which its caller left.
                self.give_back(size)
            raise
        return size

    def give_back(self, size: int) -> None:
        self.bytes_free += size
        assert self.bytes_free <= self.bytes_max, self.bytes_free
        self._grant()

    def _grant(self) -> None:
        while self._queue and self._queue[0][0] <= self.bytes_free:
            size, granted = self._queue.popleft()
            self.bytes_free -= size
            if not granted.done():
                granted.set_result(None)
