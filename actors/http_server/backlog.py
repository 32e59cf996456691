"""Counts unread bytes of WebSocket clients, and drops the connection with most of them when there are too many.

Implements: threat 35 (clients that take nothing). No I/O except dropping a connection.
"""

from typing import Protocol


class Droppable(Protocol):
    def drop(self) -> None:
        """End the connection, and discard everything that waits for its client."""
        ...


class Backlog:
    """Unread bytes of all full WebSockets of a process.

    When full: the connection with the most bytes is dropped. Clients that read their answers have few or none.
    """

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max, self._total = bytes_max, 0
        self._sizes: dict[Droppable, int] = {}

    def holds(self, socket: Droppable, size: int) -> None:
        self._total += size - self._sizes.get(socket, 0)
        self._sizes[socket] = size
        while self._total > self._bytes_max:
            largest = max(self._sizes, key=self._sizes.__getitem__)
            self.let_go(largest)
            largest.drop()

    def let_go(self, socket: Droppable) -> None:
        self._total -= self._sizes.pop(socket, 0)
