"""Limits the bytes of updates that wait for slow clients, of each account and of a whole replica.

Implements: threat 30 (memory stays bounded, however many streams fall behind). Pure.

The first update of each queue counts for nothing: a client that keeps up has no more, and a block of 20 MB for many
such clients is one object in memory. Bytes behind it are counted for each queue, also where queues share them.
When full: the stream with the most bytes is ended; of the account, where its limit was reached. So no client is ended
for another one that does not read.
"""

from typing import Protocol


class Queue(Protocol):
    """The updates that wait for one client. behind_bytes: their share in GeyserQueues."""

    account: bytes
    behind_bytes: int

    @property
    def is_ended(self) -> bool: ...

    def give_up(self, limit: str) -> None:
        """Drop the waiting updates, and end the stream. limit: the limit that was reached, for the client."""


class GeyserQueues:
    """bytes_max: of the replica; account_bytes_max: of one account."""

    def __init__(self, bytes_max: int, account_bytes_max: int) -> None:
        self._bytes_max, self._account_bytes_max = bytes_max, account_bytes_max
        self.bytes = 0
        self._by_account: dict[bytes, int] = {}
        self._behind: dict[Queue, None] = {}

    @property
    def accounts(self) -> int:
        """How many accounts have bytes here."""
        return len(self._by_account)

    def change(self, queue: Queue, size: int) -> None:
        """Count more bytes of a queue, or fewer (size below 0); behind_bytes has them already."""
        self.bytes += size
        account = queue.account
        of_account = self._by_account.get(account, 0) + size
        if of_account:
            self._by_account[account] = of_account
        else:
            self._by_account.pop(account, None)
        if queue.behind_bytes:
            self._behind[queue] = None
        else:
            self._behind.pop(queue, None)
        if size > 0 and of_account > self._account_bytes_max:
            mine = [one for one in self._behind if one.account == account]
            _end_largest(mine, f"{of_account:,} bytes of this account's streams")
        elif size > 0 and self.bytes > self._bytes_max:
            _end_largest(list(self._behind), f"{self.bytes:,} bytes of all streams")


def _end_largest(queues: list[Queue], limit: str) -> None:
    open_queues = [one for one in queues if not one.is_ended]
    if open_queues:
        max(open_queues, key=lambda one: one.behind_bytes).give_up(limit)
