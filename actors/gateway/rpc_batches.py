"""The calls of one batch: all at once as far as the account's slots go, the rest as slots come free.

Implements: "batches split, run concurrently, bounded per account by its concurrency slots"; decisions, "batch replies";
hostile input 11 (order kept, prefix-exact billing).
The shell: whether there are slots, units and credits is the account owner's to say; what a call costs outcomes.py's.

All items are asked for in one hold, in order. Those that had no slot wait, and each call of this batch that ends asks
for the next of them: a batch of 100 on an account with 64 slots is worked off 64 at a time, and the owner judges its
items in the order in which they were sent. Only when no call of the batch is under way, so that no slot of its own can
come free, are those that wait refused: then other requests have the account's slots. Units and credits are not waited
for. The time of an item's class begins when it has its slot.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

import msgspec

from actors.accounts.api import OwnerUnavailable
from actors.calls import HoldItem, HoldReply
from actors.errors import Err
from actors.gateway.admission import AdmittedCall

logger = logging.getLogger(__name__)

_NO_SLOT = Err.CONCURRENCY_LIMITED.name
_R = TypeVar("_R")


class Granted(msgspec.Struct, frozen=True):
    """What a hold gave. operation: of its first item; held_at: Unix seconds."""

    operation: bytes
    held: HoldReply
    held_at: int


# (items, public key once the account is known) and (call, what its hold gave, its place in that hold).
Hold = Callable[[tuple[HoldItem, ...], bytes | None], Awaitable[Granted]]
CarryOut = Callable[[AdmittedCall, Granted, int], Awaitable[_R]]
GiveUp = Callable[[AdmittedCall, Granted, int], None]


class BatchRun(Generic[_R]):
    """ends: after run(), for each call what it came to, or the name of the Err that refused it.

    give_up: told of each call that was held and never begun, as its caller left in that very moment.
    """

    def __init__(self, calls: Sequence[AdmittedCall], hold: Hold, carry_out: CarryOut[_R], give_up: GiveUp) -> None:
        self._calls, self._hold, self._carry_out, self._give_up = calls, hold, carry_out, give_up
        self.ends: list[_R | str] = [Err.INTERNAL_ERROR.name] * len(calls)
        self._waiting: deque[int] = deque()
        self._under_way = 0
        self._begun: set[int] = set()
        self._pubkey = b""

    async def run(self) -> HoldReply:
        """The owner's reply to the whole: with a refusal nothing was done. Raises OwnerUnavailable, as nothing was."""
        granted = await self._hold(tuple(call.plan.items[0] for call in self._calls), None)
        held = granted.held
        if held.refusal is not None:
            return held
        assert len(held.verdicts) == len(self._calls)
        self._pubkey = held.pubkey
        started = []
        for index, verdict in enumerate(held.verdicts):
            if verdict is None:
                started.append(index)
                continue
            self.ends[index] = verdict
            if verdict == _NO_SLOT:
                self._waiting.append(index)
        self._under_way = len(started)
        try:
            done = await asyncio.gather(*(self._lane(index, granted) for index in started), return_exceptions=True)
        finally:
            for index in started:  # A task that is cancelled before its first turn runs none of its code.
                if index not in self._begun:
                    self._give_up(self._calls[index], granted, index)
        for fault in done:
            if isinstance(fault, BaseException):
                logger.error("a call of a batch failed", exc_info=fault)
        return held

    async def _lane(self, index: int, granted: Granted) -> None:
        """One slot of the account: a call, and then whichever has waited longest, until none waits."""
        place = index
        self._begun.add(index)
        try:
            while True:
                self.ends[index] = await self._carry_out(self._calls[index], granted, place)
                place = 0
                following = await self._next()
                if following is None:
                    return
                index, granted = following
        finally:
            self._under_way -= 1

    async def _next(self) -> tuple[int, Granted] | None:
        """The next call that was given a slot. None: nobody waits, or others took the slot."""
        while self._waiting:
            index = self._waiting.popleft()
            try:
                granted = await self._hold(self._calls[index].plan.items, self._pubkey)
            except OwnerUnavailable:
                self.ends[index] = Err.SERVICE_TEMPORARILY_UNAVAILABLE.name
                continue
            verdict = granted.held.refusal or granted.held.verdicts[0]
            if verdict is None:
                return index, granted
            self.ends[index] = verdict
            if verdict == _NO_SLOT and self._under_way > 1:
                self._waiting.appendleft(index)  # Another call of this batch will end and ask again.
                return None
        return None
