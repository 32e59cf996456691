"""Hashes the parts of large bodies in a thread beside the event loop, while the next parts arrive.

Implements: decisions, "Signed roots" (the hash of an answer). A shell: one thread for each process, from its first
body above 2 MB on. hashlib lets go of Python's lock while it works, so the loop reads the next part, and works for
others: of 10 MB reading takes 1.5 ms, and hashing 5. In the loop, one came after the other.
"""

import asyncio
import queue
import threading
from collections import deque
from contextlib import suppress
from functools import cache
from hashlib import sha256

Part = bytes | memoryview


class SideHash:
    """A SHA-256 of one body. Belongs to one task, which calls `caught_up` once, after the last part but one."""

    def __init__(self, begun: bytes) -> None:
        self._hash = sha256(begun)
        self._waiting: deque[Part] = deque()
        self._lock = threading.Lock()  # Of the two below and the queue above.
        self._is_with_thread = False
        self._emptied: asyncio.Future[None] | None = None
        self._is_here = False  # The thread has done its part, and the rest is hashed at once.

    def update(self, part: Part) -> None:
        if self._is_here:
            self._hash.update(part)
            return
        with self._lock:
            self._waiting.append(part)
            if self._is_with_thread:
                return
            self._is_with_thread = True
        _bodies().put(self)

    async def caught_up(self) -> None:
        """Wait until all parts are hashed. What comes after them is hashed where it comes."""
        self._is_here = True
        with self._lock:
            if not self._is_with_thread:
                return
            self._emptied = asyncio.get_running_loop().create_future()
        await self._emptied

    def digest(self) -> bytes:
        return self._hash.digest()

    def drop(self) -> None:
        """The body is no answer: what waits need not be hashed."""
        with self._lock:
            self._waiting.clear()

    def work(self) -> None:
        """Hash what waits; in the thread."""
        while True:
            with self._lock:
                if not self._waiting:
                    self._is_with_thread, emptied = False, self._emptied
                    break
                part = self._waiting.popleft()
            self._hash.update(part)
        if emptied is not None:
            with suppress(RuntimeError):  # The loop is closed, and nobody waits.
                emptied.get_loop().call_soon_threadsafe(_end, emptied)


def _end(emptied: "asyncio.Future[None]") -> None:
    if not emptied.done():
        emptied.set_result(None)


@cache
def _bodies() -> "queue.SimpleQueue[SideHash]":
    """Start the thread, and return the queue that it takes bodies from."""
    bodies: queue.SimpleQueue[SideHash] = queue.SimpleQueue()

    def run() -> None:
        while True:
            bodies.get().work()

    threading.Thread(target=run, name="hashes large answers", daemon=True).start()
    return bodies
