"""Limits the bytes of large answers that this process holds at once, and shares them among accounts.

Implements: large answers (memory is bounded, however many are requested at once). The rules are those of
README.md, "Large answers".

client.py claims the bytes of an answer when it knows the length, and reads the body only after the claim is granted.
The bytes are given back when the last holder drops the answer.

- An account that holds nothing may have any one answer; else it may hold as much as is free afterwards, or a sixteenth.
  So one account holds at most half, two a third each, and claims of others pass those of an account that has its share.
- A sixteenth is kept for accounts that hold little, a 64th at most, with the answer that they claim (8 MiB of 512).
- A claim of an account that has its share ends with NoRoom after SHARE_SECONDS.
- Claims that find no room are granted in turns: once the oldest one, once the one whose account would hold least. So
  neither do small answers delay a large one for ever, nor many large ones a small one.
- While a claim finds no room, answers give way to it: of the account that holds most, and more than the account that
  waits, the one that has been sent for longest, if for GIVE_WAY_SECONDS at least. Else clients of a few accounts that
  read slowly could hold all of it for minutes.

What is claimed for no account, as parts of composed answers are, counts for none: it is dropped when they are composed.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import inf
from typing import NamedTuple

LARGE_BYTES = 1 << 20  # The number of calls in flight bounds the memory of smaller answers.
GIVE_WAY_SECONDS = 10.0  # 50 MB in it are 40 Mbit/s; whoever is slower is asked only for what others wait for.
# An account that has its share waits for its own answers no longer than that: others may wait for the same read.
SHARE_SECONDS = 2.0
_LOOK_SECONDS = 0.25  # Between two looks for an answer that has been sent for long enough.


class NoRoom(Exception):
    """Raised where there was no memory for an answer in time."""


class _Claim(NamedTuple):
    number: int  # In the order in which they came.
    size: int
    account: bytes
    granted: asyncio.Future[None]


class HeldMemory:
    """The bytes of one answer that has arrived."""

    __slots__ = ("account", "gives_way", "sent_by", "size")

    def __init__(self, size: int, account: bytes) -> None:
        self.size, self.account = size, account
        self.sent_by: dict[Callable[[], None], float] = {}  # What breaks off each sending of it, and when that began.
        self.gives_way = False  # It is broken off, and will soon have gone.


@contextmanager
def being_sent(holdings: Sequence[HeldMemory], break_off: Callable[[], None]) -> Iterator[None]:
    """While these answers are sent to one client. break_off: called once, when one of them has to give way."""

    def gives_way() -> None:
        for holding in holdings:
            holding.sent_by.pop(gives_way, None)
            holding.gives_way = not holding.sent_by
        break_off()

    began = asyncio.get_running_loop().time()
    for holding in holdings:
        holding.sent_by[gives_way], holding.gives_way = began, False
    try:
        yield
    finally:
        for holding in holdings:
            holding.sent_by.pop(gives_way, None)


class MemoryBudget:
    def __init__(
        self, bytes_max: int, give_way_seconds: float = GIVE_WAY_SECONDS, share_seconds: float = SHARE_SECONDS
    ) -> None:
        self.bytes_max = self.bytes_free = bytes_max
        self._give_way_seconds, self._share_seconds = give_way_seconds, share_seconds
        self._share_min = self._kept_for_little = bytes_max // 16
        self._little = bytes_max // 64
        self._held: dict[bytes, int] = {}  # By account.
        self._waiting: dict[bytes, deque[_Claim]] = {}  # By account, in the order of their coming.
        self._last_number = 0
        self._is_turn_of_least = False
        self._holdings: dict[HeldMemory, None] = {}  # In the order of their coming.
        self._look: asyncio.TimerHandle | None = None

    async def claim(self, size: int, account: bytes = b"", give_up_at: float = inf) -> int:
        """Wait until `size` bytes are free, take them, and return their number.

        account: empty: of none. give_up_at: in the time of the loop. Raises NoRoom then, and earlier where the account
        has its share.
        """
        assert 0 < size <= self.bytes_max, size
        if not self._waiting and self._fits(account, size) and self._may_have(account, size):
            self._take(account, size)
            return size
        self._last_number += 1
        waiting = _Claim(self._last_number, size, account, asyncio.get_running_loop().create_future())
        self._waiting.setdefault(account, deque()).append(waiting)
        self._grant()  # Those before it may all be of accounts that have their share.
        try:
            await self._granted(waiting, give_up_at)
        except BaseException:
            if waiting.granted.done():
                self.give_back(size, account)  # It was granted in the moment in which its caller left.
            else:
                self._leave(waiting)
                self._grant()
            raise
        return size

    async def _granted(self, claim: _Claim, give_up_at: float) -> None:
        now = asyncio.get_running_loop().time
        while not claim.granted.done():
            await asyncio.wait((claim.granted,), timeout=max(0.0, min(self._share_seconds, give_up_at - now())))
            if not claim.granted.done() and (now() >= give_up_at or not self._may_have(claim.account, claim.size)):
                raise NoRoom

    def give_back(self, size: int, account: bytes = b"", holding: HeldMemory | None = None) -> None:
        """holding: of the answer that arrived in this memory, where it did."""
        if holding is not None:
            del self._holdings[holding]
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

    def arrived(self, size: int, account: bytes) -> HeldMemory:
        """The answer for which these bytes were claimed is whole. What is returned goes to give_back."""
        holding = HeldMemory(size, account)
        self._holdings[holding] = None
        return holding

    def _may_have(self, account: bytes, size: int) -> bool:
        held = self._held.get(account, 0)
        return not held or held + size <= max(self.bytes_free - size, self._share_min)

    def _is_little(self, account: bytes, size: int) -> bool:
        return account != b"" and self._held.get(account, 0) + size <= self._little

    def _kept(self) -> int:
        """Bytes that are kept free for accounts that hold little: as many as these do not have yet."""
        return max(0, self._kept_for_little - sum(held for held in self._held.values() if held <= self._little))

    def _fits(self, account: bytes, size: int) -> bool:
        if not account or size > self.bytes_free or size <= self.bytes_free - self._kept_for_little:
            return size <= self.bytes_free
        is_huge = self._held.get(account, 0) + size > self.bytes_max - self._kept_for_little
        return is_huge or self._is_little(account, size) or size <= self.bytes_free - self._kept()

    def _take(self, account: bytes, size: int) -> None:
        self.bytes_free -= size
        if account:
            self._held[account] = self._held.get(account, 0) + size

    def _leave(self, claim: _Claim) -> None:
        queue = self._waiting[claim.account]
        queue.remove(claim)
        if not queue:
            del self._waiting[claim.account]

    def _grant(self) -> None:
        while (claim := self._next()) is not None:
            if not self._fits(claim.account, claim.size):
                self._make_room(claim)
                return
            self._leave(claim)
            self._is_turn_of_least = not self._is_turn_of_least
            self._take(claim.account, claim.size)
            claim.granted.set_result(None)

    def _next(self) -> _Claim | None:
        """The claim whose turn it is. None: those that wait are of accounts that have their share."""
        first = [queue[0] for account, queue in self._waiting.items() if self._may_have(account, queue[0].size)]
        if not first:
            return None
        kept = min(self._kept(), self.bytes_free)
        little = [claim for claim in first if claim.size <= kept and self._is_little(claim.account, claim.size)]
        if little:  # They delay none of the others, for whom this memory is not.
            return min(little)
        if not self._is_turn_of_least:
            return min(first)
        return min(first, key=lambda claim: (self._held.get(claim.account, 0) + claim.size, claim.number))

    # --- answers that give way

    def _make_room(self, claim: _Claim) -> None:
        """Break off as many as the claim needs, and look again soon, as others may have been sent for long by then."""
        loop = asyncio.get_running_loop()
        may_have_all = not claim.account or self._is_little(claim.account, claim.size)
        free = self.bytes_free - (0 if may_have_all else self._kept())
        missing = claim.size - free - sum(each.size for each in self._holdings if each.gives_way)
        while missing > 0 and (found := self._slowest(claim.account, loop.time())) is not None:
            for give_way in tuple(found.sent_by):
                give_way()
            missing -= found.size
        if self._look is None:
            self._look = loop.call_later(_LOOK_SECONDS, self._look_again)

    def _look_again(self) -> None:
        self._look = None
        self._grant()

    def _slowest(self, account: bytes, now: float) -> HeldMemory | None:
        """The next one to give way to this account. An answer that several clients share is as old as its last one."""
        held = Counter(self._held)
        for each in self._holdings:
            if each.gives_way and each.account:
                held[each.account] -= each.size
        least, found, rank = held[account], None, (0, 0.0)
        for each in self._holdings:
            if each.gives_way or not each.sent_by or held[each.account] <= least:
                continue
            seconds = now - max(each.sent_by.values())
            if seconds >= self._give_way_seconds and (held[each.account], seconds) > rank:
                found, rank = each, (held[each.account], seconds)
        return found
