"""Counts the bytes of answers that clients do not read, in one process: in all, and of each owner. Pure.

Implements: threat 60 (unread bytes are bounded). An owner is the account that paid for the answer, else the
address of the client. A connection counts here from the moment in which more is written than its client takes. The
server (answering.py) looks at each such connection every few seconds, those that have stood longest first: one whose
client took nothing since the last look is closed where its owner, or all owners together, hold more than their budget.
So a client that reads slowly is served to the end, and one that does not read keeps at most a budget for long.
"""

from collections import Counter

BYTES_MAX = 128 << 20
OWNER_BYTES_MAX = 8 << 20


class UnreadAnswers:
    def __init__(self, bytes_max: int = BYTES_MAX, owner_bytes_max: int = OWNER_BYTES_MAX) -> None:
        self._bytes_max, self._owner_bytes_max = bytes_max, owner_bytes_max
        self.bytes = 0
        self._by_owner: Counter[bytes | str] = Counter()

    def resize(self, owner: bytes | str, before: int, now: int) -> None:
        """Change the unread bytes of one connection. before: counted so far; now: 0 when it has none."""
        self.bytes += now - before
        self._by_owner[owner] += now - before
        if not self._by_owner[owner]:
            del self._by_owner[owner]

    def is_over(self, owner: bytes | str) -> bool:
        """Return whether a connection of this owner must be closed if its client reads nothing."""
        return self.bytes > self._bytes_max or self._by_owner[owner] > self._owner_bytes_max
