"""Gives large requests their turns on the event loop: one at a time, and their calls checked in slices.

Implements: design, "Work on the loop" (nothing holds the loop longer than 5 ms); threat 61. A shell.

Reading a body of 256 kB takes up to 2 ms, and checking 100 transactions in it takes 20 ms or more. When 400 of them
arrive in the same moment, all other requests would wait for all of them. So only one large request is worked on between
two rounds of the loop, and the others wait in order of arrival. Small requests never wait here.

What happens when full: requests above WAITING_BYTES_MAX in all, or NAME_WAITING_BYTES_MAX of one account or address,
are refused with 503.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

from actors.errors import Err, Refusal
from actors.gateway.calls.admission import AdmittedCall, Plan, admit
from actors.gateway.calls.jsonrpc import BadCall, Call
from actors.gateway.calls.outcomes import Replies
from actors.gateway.calls.refused_work import cost_of_call

LARGE_BYTES = 16_384
SLICE_BYTES = 2_048  # Of parameters: a transaction of 1.6 kB with 11 signatures takes 0.5 ms to verify.
WAITING_BYTES_MAX = 64 << 20
NAME_WAITING_BYTES_MAX = 8 << 20  # 32 bodies of the largest size.
TOO_MANY = Refusal(Err.SERVICE_TEMPORARILY_UNAVAILABLE, "too many large requests wait here")

_T = TypeVar("_T")
AnyCall = Call | BadCall | AdmittedCall


class LargeRequests:
    """Belongs to one event loop."""

    def __init__(
        self, waiting_bytes_max: int = WAITING_BYTES_MAX, name_bytes_max: int = NAME_WAITING_BYTES_MAX
    ) -> None:
        self._waiting_bytes_max, self._name_bytes_max = waiting_bytes_max, name_bytes_max
        self._turn = asyncio.Lock()
        self._waiting: Counter[bytes | str] = Counter()
        self._waiting_bytes = 0

    async def run(self, name: bytes | str, size: int, work: Callable[[], Awaitable[_T]]) -> _T | Refusal:
        """Do this work when all that came before is done. name: of the account or address that has caused it."""
        if self._waiting_bytes + size > self._waiting_bytes_max or self._waiting[name] + size > self._name_bytes_max:
            return TOO_MANY
        self._waiting_bytes += size
        self._waiting[name] += size
        try:
            async with self._turn:
                # Requests that are ready in this round of the loop line up, in place of being worked on in it.
                await asyncio.sleep(0)
                return await work()
        finally:
            self._waiting_bytes -= size
            self._waiting[name] -= size
            if not self._waiting[name]:
                del self._waiting[name]

    async def admitted(
        self, name: Callable[[], bytes | str], calls: Sequence[AnyCall], plans: Mapping[str, Plan]
    ) -> list[AdmittedCall | BadCall] | Refusal:
        """Admit or refuse each call, those of a large batch in a turn of their own. A call is admitted once."""
        size = sum(len(call.params) for call in calls if type(call) is Call)
        if size <= LARGE_BYTES:
            return [admitted(call, plans) for call in calls]
        return await self.run(name(), size, lambda: _in_slices(calls, plans))


def admitted(call: AnyCall, plans: Mapping[str, Plan]) -> AdmittedCall | BadCall:
    if type(call) is not Call:
        return call  # type: ignore[return-value]
    end = admit(call, plans)
    return BadCall(call.id, end, cost_of_call(call.method, call.params)) if isinstance(end, Refusal) else end


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
