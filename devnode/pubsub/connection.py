"""The bounded queue of texts for one client.

Implements: as on a node, a client that reads too slowly is cut off without a message, once more than
QUEUE_MESSAGES_MAX messages or QUEUE_CHARACTERS_MAX characters wait for it. Connections share the texts.
Not here: the socket and the client's requests (door.py).
"""

import asyncio
from collections import deque

QUEUE_MESSAGES_MAX = 16_384
QUEUE_CHARACTERS_MAX = 64 * 1024 * 1024  # A few full blocks are megabytes.


class Connection:
    def __init__(self, messages_max: int = QUEUE_MESSAGES_MAX, characters_max: int = QUEUE_CHARACTERS_MAX) -> None:
        self._messages_max, self._characters_max = messages_max, characters_max
        self._queue: deque[str] = deque()
        self._characters = 0
        self._wake = asyncio.Event()
        self._ended = asyncio.Event()

    def offer(self, text: str) -> None:
        """Queue a text to send; never waits. After a cut, texts are ignored."""
        if self.is_cut:
            return
        if len(self._queue) >= self._messages_max or self._characters + len(text) > self._characters_max:
            self.cut()
            return
        self._queue.append(text)
        self._characters += len(text)
        self._wake.set()

    def cut(self) -> None:
        """End the connection and drop all queued texts."""
        self._queue.clear()
        self._characters = 0
        self._ended.set()

    @property
    def is_cut(self) -> bool:
        return self._ended.is_set()

    async def ended(self) -> None:
        """Wait for the cut."""
        await self._ended.wait()

    async def next(self) -> str:
        """Wait for the next text to send."""
        while not self._queue:
            self._wake.clear()
            await self._wake.wait()
        text = self._queue.popleft()
        self._characters -= len(text)
        return text
