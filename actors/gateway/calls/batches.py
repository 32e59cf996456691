"""Runs the calls of one batch: at once as many as the account has slots, the rest as slots become free.

Implements: "batches split, run concurrently, bounded per account by its concurrency slots"; decisions, "batch replies";
threat 11 (order kept, prefix-exact billing).
A shell: the account's owner grants slots, rate units and credits; calls/outcomes.py prices a call.

One hold asks for all calls, in order. Calls that got no slot wait, and each call of this batch that ends asks for the
next of them: with 64 slots, a batch of 100 runs 64 at a time, and the owner judges its calls in the order in which they
were sent. When none of its calls is running, no slot of the batch can become free: other requests have the account's
slots, so the waiting calls are refused. No call waits for rate units or credits. The timeout of a call begins when it
gets its slot.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

import msgspec

from actors.accounts.api import OwnerUnavailable
from actors.calls import OTHER_PRICES, HoldReply, ProvenProof
from actors.errors import Err
from actors.gateway.calls.admission import AdmittedCall

logger = logging.getLogger(__name__)

_NO_SLOT = Err.CONCURRENCY_LIMITED.name
_R = TypeVar("_R")


class Granted(msgspec.Struct, frozen=True):
    """Result of a hold. operation: of its first call; held_at: Unix seconds. calls: at the held prices."""

    operation: bytes
    held: HoldReply
    held_at: int
    calls: Sequence[AdmittedCall]


# (calls, who pays once the account is known), and (call, the result of its hold, its place in that hold).
Hold = Callable[[Sequence[AdmittedCall], ProvenProof | None], Awaitable[Granted]]
CarryOut = Callable[[AdmittedCall, Granted, int], Awaitable[_R]]
GiveUp = Callable[[AdmittedCall, Granted, int], None]


class BatchRun(Generic[_R]):
    """results: after run(), the reply to each call, or the name of the Err that refused it. calls: at their prices.

    give_up: called for each call that was held and not begun, because the request was cancelled at that moment.
    """

    def __init__(self, calls: Sequence[AdmittedCall], hold: Hold, carry_out: CarryOut[_R], give_up: GiveUp) -> None:
        self.calls: list[AdmittedCall] = list(calls)
        self._hold, self._carry_out, self._give_up = hold, carry_out, give_up
        self.results: list[_R | str] = [Err.INTERNAL_ERROR.name] * len(calls)
        self._waiting: deque[int] = deque()
        self._under_way = 0
        self._begun: set[int] = set()
        self._payer: ProvenProof | None = None

    async def run(self) -> HoldReply:
        """Run the batch; return the reply to its first hold. On a refusal there, or OwnerUnavailable, nothing ran."""
        granted = await self._hold(self.calls, None)
        held, self.calls = granted.held, list(granted.calls)
        if held.refusal is not None:
            return held
        assert len(held.verdicts) == len(self.calls)
        self._payer = held.payer
        started = []
        for index, verdict in enumerate(held.verdicts):
            if verdict is None:
                started.append(index)
                continue
            self.results[index] = verdict
            if verdict == _NO_SLOT:
                self._waiting.append(index)
        self._under_way = len(started)
        try:
            done = await asyncio.gather(*(self._lane(index, granted) for index in started), return_exceptions=True)
        finally:
            for index in started:  # A task that is cancelled before its first turn runs none of its code.
                if index not in self._begun:
                    self._give_up(self.calls[index], granted, index)
        for fault in done:
            if isinstance(fault, BaseException):
                logger.error("a call of a batch failed", exc_info=fault)
        return held

    async def _lane(self, index: int, granted: Granted) -> None:
        """Use one slot of the account: for this call, then for the call that has waited longest, until none waits."""
        place = index
        self._begun.add(index)
        try:
            while True:
                self.results[index] = await self._carry_out(self.calls[index], granted, place)
                place = 0
                following = await self._next()
                if following is None:
                    return
                index, granted = following
        finally:
            self._under_way -= 1

    async def _next(self) -> tuple[int, Granted] | None:
        """Get the slot for the next waiting call. None: no call waits, or another request took the slot."""
        while self._waiting:
            index = self._waiting.popleft()
            try:
                granted = await self._hold((self.calls[index],), self._payer)
            except OwnerUnavailable:
                self.results[index] = Err.SERVICE_TEMPORARILY_UNAVAILABLE.name
                continue
            (self.calls[index],) = granted.calls
            verdict = granted.held.refusal or granted.held.verdicts[0]
            if verdict == OTHER_PRICES:  # The price of this call was found by asking, which is not repeated.
                verdict = Err.SERVICE_TEMPORARILY_UNAVAILABLE.name
            if verdict is None:
                return index, granted
            self.results[index] = verdict
            if verdict == _NO_SLOT and self._under_way > 1:
                self._waiting.appendleft(index)  # Another call of this batch will end and try again.
                return None
        return None
