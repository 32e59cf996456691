"""Holds back the refusals of callers that are told to wait, so that a flood of them is answered at a steady pace.

Implements: design, "Work on the loop"; threats 35, 59, 60 and 63. A shell.

A refused request takes a fifth of a millisecond. A client that waits for each answer sends the next request as soon as
it has one, so answers at once let 200 connections keep a replica busy with refusals alone. These answers leave in
order of arrival, at most PER_SECOND of them, and a client on few connections gets its own within TICK_SECONDS.
The delay is no loss: such a refusal says that the client is to wait for a second.

What happens when full: refusals above WAITING_MAX leave at once.
"""

import asyncio
from collections import deque

PER_SECOND = 500  # A tenth of the refusals that a replica can make.
TICK_SECONDS = 0.01
WAITING_MAX = 2_048  # At PER_SECOND they leave within about four seconds.
_PER_TICK = round(PER_SECOND * TICK_SECONDS)


class DelayedRefusals:
    """Used by one event loop."""

    def __init__(self, waiting_max: int = WAITING_MAX) -> None:
        self._waiting_max = waiting_max
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    async def wait(self) -> None:
        """Wait until the next refusal may leave."""
        if len(self._waiting) >= self._waiting_max:
            return
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        self._waiting.append(turn)
        if self._timer is None:
            self._timer = loop.call_later(TICK_SECONDS, self._tick)
        await turn

    def _tick(self) -> None:
        """Release some refusals. Those whose clients have left are skipped, and do not count."""
        left = _PER_TICK
        while left and self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                left -= 1
        waits = bool(self._waiting)
        self._timer = asyncio.get_running_loop().call_later(TICK_SECONDS, self._tick) if waits else None
