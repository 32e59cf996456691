"""Gives large requests their turns on the event loop: one at a time, and their calls checked in slices.

Implements: design, "Work on the loop" (nothing holds the loop longer than 5 ms); threat 61. A shell.

Reading a body of 256 kB takes up to 2 ms, and checking 100 transactions in it takes 20 ms or more. When 400 of them
arrive in the same moment, all other requests would wait for all of them. So only one large request is worked on between
two rounds of the loop. Accounts and addresses take turns: the next request is the oldest one of whoever has waited
longest for a turn. Small requests never wait here.

What happens when full: requests above WAITING_BYTES_MAX in all, or NAME_WAITING_BYTES_MAX of one account or address,
are refused with 503. An account or address with a request here gets another one in only while all its bytes are at most
FREE_SHARE of the bytes that are free. So each sender leaves seven eighths of what the others have left, and eight of
them leave a third of the room.
"""

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

from actors.errors import Err, Refusal
from actors.gateway.calls.admission import AdmittedCall, Plan, admit
from actors.gateway.calls.jsonrpc import BadCall, Call
from actors.gateway.calls.outcomes import Replies
from actors.gateway.calls.refused_work import cost_of_call

LARGE_BYTES = 16_384
SLICE_BYTES = 2_048  # Bytes of parameters: a transaction of 1.6 kB with 11 signatures takes 0.5 ms to verify.
WAITING_BYTES_MAX = 64 << 20
NAME_WAITING_BYTES_MAX = 8 << 20  # 32 bodies of the largest size.
FREE_SHARE = 8  # One sender may hold an eighth of the free bytes.
TOO_MANY = Refusal(Err.SERVICE_TEMPORARILY_UNAVAILABLE, "too many large requests wait here")

_T = TypeVar("_T")
AnyCall = Call | BadCall | AdmittedCall


class LargeRequests:
    """Used by one event loop."""

    def __init__(
        self, waiting_bytes_max: int = WAITING_BYTES_MAX, name_bytes_max: int = NAME_WAITING_BYTES_MAX
    ) -> None:
        self._waiting_bytes_max, self._name_bytes_max = waiting_bytes_max, name_bytes_max
        self._bytes: Counter[bytes | str] = Counter()  # By name; includes the request being processed.
        self._bytes_total = 0
        self._lines: OrderedDict[bytes | str, deque[asyncio.Future[None]]] = OrderedDict()  # The first name is next.
        self._is_working = False

    async def run(self, name: bytes | str, size: int, work: Callable[[], Awaitable[_T]]) -> _T | Refusal:
        """Do this work when its turn comes. name: of the account or address that caused it."""
        if not self._has_room(name, size):
            return TOO_MANY
        self._count(name, size)
        try:
            await self._wait_for_turn(name)
            try:
                # Requests that become ready in this round of the loop queue here, instead of running in it.
                await asyncio.sleep(0)
                return await work()
            finally:
                self._give_next_turn()
        finally:
            self._count(name, -size)

    def _has_room(self, name: bytes | str, size: int) -> bool:
        free, held = self._waiting_bytes_max - self._bytes_total, self._bytes[name]
        return size <= free and held + size <= self._name_bytes_max and (not held or held + size <= free // FREE_SHARE)

    def _count(self, name: bytes | str, size: int) -> None:
        self._bytes_total += size
        self._bytes[name] += size
        if not self._bytes[name]:
            del self._bytes[name]

    async def _wait_for_turn(self, name: bytes | str) -> None:
        if not self._is_working:
            self._is_working = True
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._lines.setdefault(name, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # The request may have been cancelled at the moment of its turn.
                self._give_next_turn()
            raise

    def _give_next_turn(self) -> None:
        while self._lines:
            name, line = self._lines.popitem(last=False)
            turn = line.popleft()
            if line:
                self._lines[name] = line
            if not turn.done():  # Otherwise its request was cancelled.
                turn.set_result(None)
                return
        self._is_working = False

    async def admitted(
        self, name: Callable[[], bytes | str], calls: Sequence[AnyCall], plans: Mapping[str, Plan]
    ) -> list[AdmittedCall | BadCall] | Refusal:
        """Admit or refuse each call once; the calls of a large batch wait for their own turn."""
        size = sum(len(call.params) for call in calls if type(call) is Call)
        if size <= LARGE_BYTES:
            return [admitted(call, plans) for call in calls]
        return await self.run(name(), size, lambda: _in_slices(calls, plans))


def admitted(call: AnyCall, plans: Mapping[str, Plan]) -> AdmittedCall | BadCall:
    if type(call) is not Call:
        return call  # type: ignore[return-value]
    end = admit(call, plans)
    if not isinstance(end, Refusal):
        return end
    known = call.method if end.err is not Err.METHOD_NOT_FOUND else ""
    return BadCall(call.id, end, cost_of_call(call.method, call.params), known)


def cost_of_work(work: Sequence[AnyCall], done: Replies) -> int:
    """Return the units of the calls that these replies refuse; of all calls where the request is refused.

    Each call is one unit at least: all calls of a batch were read, though it is refused by one word.
    """
    if done.refusal is None:
        work = [call for call, item in zip(work, done.items, strict=False) if item.refusal is not None]
    return sum(max(1, call.cost if isinstance(call, BadCall) else _cost(call)) for call in work)


def _cost(call: Call | AdmittedCall) -> int:
    return cost_of_call(call.method if isinstance(call, Call) else call.plan.method, call.params)


async def _in_slices(calls: Sequence[AnyCall], plans: Mapping[str, Plan]) -> list[AdmittedCall | BadCall]:
    ends: list[AdmittedCall | BadCall] = []
    size = 0
    for call in calls:
        ends.append(admitted(call, plans))
        size += len(call.params) if type(call) is Call else 0
        if size > SLICE_BYTES:
            size = 0
            await asyncio.sleep(0)
    return ends
