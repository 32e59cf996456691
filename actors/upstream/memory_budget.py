"""The memory budget of large answers: how many bytes of them this process may hold at once.

Implements: large answers (memory is bounded, however many are requested at once).
Pure: nothing waits here. A claim without room is called back when there is room; client.py reads no further until then.

An answer claims its bytes when its length is known, and returns them when its last holder drops it, after the client
has the last byte. Claims are served in their order, so that small answers cannot delay a large one for ever.
"""

from collections import deque
from collections.abc import Callable

LARGE_BYTES = 1 << 20  # Smaller answers are bounded by the number of calls in flight.
Granted = Callable[[], None]


class Room:
    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = self.bytes_free = bytes_max
        self._queue: deque[tuple[int, Granted]] = deque()

    def claim(self, size: int, granted: Granted) -> bool:
        """Claim bytes. True: granted. False: `granted` is called later, unless the claim is withdrawn before."""
        assert 0 < size <= self.bytes_max, size
        if not self._queue and size <= self.bytes_free:
            self.bytes_free -= size
            return True
        self._queue.append((size, granted))
        return False

    def withdraw(self, granted: Granted) -> None:
        self._queue = deque(entry for entry in self._queue if entry[1] != granted)
        self._serve()

    def give_back(self, size: int) -> None:
        self.bytes_free += size
        assert self.bytes_free <= self.bytes_max, self.bytes_free
        self._serve()

    def _serve(self) -> None:
        while self._queue and self._queue[0][0] <= self.bytes_free:
            size, granted = self._queue.popleft()
            self.bytes_free -= size
            granted()
