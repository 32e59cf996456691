"""Limits the bytes of WebSocket messages that have begun to arrive and are not complete, in one process.

Implements: threat 30 (memory stays bounded, however many clients leave messages unfinished). Pure.

The limit of one message bounds one connection alone: 20,000 connections with 256 KiB each are 5 GB. So the bytes are
also counted for all connections, and for the connections of each owner (an account). The connection whose bytes do not
fit is closed (websocket.py). Messages of up to SMALL_BYTES need no room: the number of connections bounds their memory,
and a client with ordinary calls is served while others use all the room.
"""

from collections import defaultdict

SMALL_BYTES = 4 << 10  # Ordinary calls are below it; 20,000 connections with as much each have 80 MiB.


class UnfinishedMessages:
    """owner_bytes_max: of the connections of one owner; a part of bytes_max, so that one owner cannot use all of it."""

    def __init__(self, bytes_max: int, owner_bytes_max: int) -> None:
        self._bytes_max, self._owner_bytes_max = bytes_max, owner_bytes_max
        self.bytes = 0
        self._by_owner: defaultdict[bytes, int] = defaultdict(int)

    def resize(self, owner: bytes, before: int, now: int) -> bool:
        """Change the count for one connection's unfinished message. False: there is no room, and nothing has changed.

        before: bytes counted for this connection; now: bytes wanted, 0 when its message is complete.
        """
        more = now - before
        of_owner = self._by_owner[owner] + more
        if more > 0 and (self.bytes + more > self._bytes_max or of_owner > self._owner_bytes_max):
            if not self._by_owner[owner]:
                del self._by_owner[owner]
            return False
        self.bytes += more
        if of_owner:
            self._by_owner[owner] = of_owner
        else:
            del self._by_owner[owner]
        return True

    @property
    def owners(self) -> int:
        """Return how many owners have bytes here."""
        return len(self._by_owner)
