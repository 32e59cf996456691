"""Connections whose frames wait for a later pass of the event loop: one of them has its turn in each pass.

A connection takes about a millisecond of frames in a pass. Without turns, fifty connections that each send a flood
would take fifty of them, and everybody else's calls would wait as long.
Not here: how much a turn takes (connection.py).
"""

import asyncio
from collections import deque
from collections.abc import Callable

Take = Callable[[], None]


class Turns:
    """Belongs to one event loop. When full: each connection waits once at most, and is not read meanwhile."""

    def __init__(self) -> None:
        self._waiting: deque[Take] = deque()

    def wait(self, take: Take) -> None:
        """Call `take` in a later pass, behind those that wait already."""
        self._waiting.append(take)
        if len(self._waiting) == 1:
            asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        take = self._waiting[0]
        try:
            take()
        finally:  # A connection stays first until its turn is over, so that a wait() in it schedules nothing.
            self._waiting.popleft()
            if self._waiting:
                asyncio.get_running_loop().call_soon(self._next)
