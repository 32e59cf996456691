"""Lets few pieces of work of one kind begin in one round of the event loop, and the others in the rounds after it.

Implements: design, "Work on the loop" (nothing holds the loop longer than 5 ms); threats 59 and 63. A shell.

A credential that no owner has confirmed here costs 0.1 ms before its owner is asked, a WebSocket handshake 1 ms, and a
send at its racer as much. When a hundred of one kind arrive in the same moment, all other requests would wait for all
of them. Only the beginning is bounded, and not the number under way: an owner that does not answer holds up nobody but
those that ask it. Accounts and addresses take turns.

What happens when full: work above WAITING_MAX is refused by its door, with 503.
"""

import asyncio
from collections import OrderedDict, deque

WAITING_MAX = 4_096


class StartLine:
    """Used by one event loop. per_round: how many may begin in one round."""

    def __init__(self, per_round: int, waiting_max: int = WAITING_MAX) -> None:
        self._per_round, self._waiting_max = per_round, waiting_max
        self._begun = 0  # Begun in this round.
        self._waiting: OrderedDict[bytes | str, deque[asyncio.Future[None]]] = OrderedDict()  # The first name is next.
        self._waiting_total = 0

    async def enter(self, name: bytes | str) -> bool:
        """Wait until work of this account or address may begin. False: too many wait already."""
        loop = asyncio.get_running_loop()
        if not self._begun:
            loop.call_soon(self._next_round)
        if self._begun < self._per_round and not self._waiting:
            self._begun += 1
            return True
        if self._waiting_total >= self._waiting_max:
            return False
        turn: asyncio.Future[None] = loop.create_future()
        self._waiting.setdefault(name, deque()).append(turn)
        self._waiting_total += 1
        await turn
        return True

    def _next_round(self) -> None:
        """Let the next ones begin. Skips those whose requests were cancelled."""
        self._begun = 0
        while self._waiting and self._begun < self._per_round:
            name, line = self._waiting.popitem(last=False)
            turn = line.popleft()
            self._waiting_total -= 1
            if line:
                self._waiting[name] = line
            if not turn.done():
                turn.set_result(None)
                self._begun += 1
        if self._begun:
            asyncio.get_running_loop().call_soon(self._next_round)
