"""Limits the bytes of large answers that this process holds at once.

Implements: large answers (memory is bounded, however many are requested at once).

client.py claims the bytes of an answer when it knows the length, and reads the body only after the claim is granted.
The bytes are given back when the last holder drops the answer. Claims are granted in their order, so that small answers
cannot delay a large one for ever. One account holds at most half of all bytes: a client that takes its answers slowly
holds them for as long, and the other half is left for others, whose claims pass those of an account that has its half.
Claims for no account, such as parts of composed answers, count for none: they are dropped once composed.
"""

import asyncio
from collections import deque
from typing import TypeAlias

LARGE_BYTES = 1 << 20  # The number of calls in flight bounds the memory of smaller answers.


_Claim: TypeAlias = tuple[int, bytes, asyncio.Future[None]]  # Bytes, the account, and what is done when it is granted.


class MemoryBudget:
    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = self.bytes_free = bytes_max
        self._share = bytes_max // 2
        self._held: dict[bytes, int] = {}  # By account.
        self._queue: deque[_Claim] = deque()

    async def claim(self, size: int, account: bytes = b"") -> int:
        """Wait until `size` bytes are free, take them, and return their number. account: empty: none."""
        assert 0 < size <= self.bytes_max, size
        if not self._queue and size <= self.bytes_free and self._may_have(account, size):
            self._take(account, size)
            return size
        waiting = size, account, asyncio.get_running_loop().create_future()
        self._queue.append(waiting)
        self._grant()  # Earlier claims may all be of accounts that have used their share.
        try:
            await waiting[2]
        except BaseException:
            if waiting in self._queue:
                self._queue.remove(waiting)
                self._grant()
            else:  # The claim was granted at the moment when its caller left.
                self.give_back(size, account)
            raise
        return size

    def give_back(self, size: int, account: bytes = b"") -> None:
        self.bytes_free += size
        assert self.bytes_free <= self.bytes_max, self.bytes_free
        if account:
            left = self._held[account] - size
            assert left >= 0, left
            if left:
                self._held[account] = left
            else:
                del self._held[account]
        self._grant()

    def _may_have(self, account: bytes, size: int) -> bool:
        """Return whether the account's share allows it; an account that holds nothing may have any one answer."""
        held = self._held.get(account, 0)
        return not held or held + size <= self._share

    def _take(self, account: bytes, size: int) -> None:
        self.bytes_free -= size
        if account:
            self._held[account] = self._held.get(account, 0) + size

    def _grant(self) -> None:
        for waiting in tuple(self._queue):
            size, account, granted = waiting
            if not self._may_have(account, size):
                continue
            if size > self.bytes_free:
                return
            self._queue.remove(waiting)
            self._take(account, size)
            if not granted.done():
                granted.set_result(None)
