"""Spreads live updates over the passes of a replica's event loop: who is given one, and who is written to.

Implements: design, "Work on the loop"; threat 62. One update of the node may be for 2,000 streams, and each of them
needs a write of 40 us: in one pass that holds the loop for 80 ms. Each piece of work says first how long
it takes at most, in units of a microsecond; what is above UNITS_A_PASS waits for the next pass. A piece that is longer
than that is the last one of its pass. All who wait are served in the order in which they came, so every stream goes on.
When full: nothing waits here but each stream once and each feed once.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial

UNITS_A_PASS = 1_500


class GeyserPace:
    """Belongs to one event loop. One for all work of a kind: feeds do not wait behind the writes that they cause."""

    def __init__(self) -> None:
        self._left = UNITS_A_PASS
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()
        self._is_scheduled = False

    def has_room(self, units: int) -> bool:
        """Whether work of so many units may be done at once; it then counts."""
        if self._left <= 0 or self._waiting:
            return False
        self._left -= units
        self._schedule()
        return True

    def wait(self, units: int, granted: Callable[[], None]) -> None:
        """Call this when it is the turn of so many units, which then count."""
        self._waiting.append((units, granted))
        self._schedule()

    async def step(self, units: int) -> None:
        """Wait until work of so many units may be done."""
        if not self.has_room(units):
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self.wait(units, partial(_grant, turn))
            await turn

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._next_pass)

    def _next_pass(self) -> None:
        self._is_scheduled, left = False, UNITS_A_PASS
        while self._waiting and left > 0:
            units, granted = self._waiting.popleft()
            left -= units
            granted()
        self._left = left
        if left < UNITS_A_PASS:
            self._schedule()


def _grant(turn: "asyncio.Future[None]") -> None:
    if not turn.done():  # Otherwise the waiter has left.
        turn.set_result(None)


def units_to_read(size: int) -> int:
    """Units to identify an update of this many bytes; its first bytes may be 1,000 names."""
    return 20 + min(size, 6_000) // 24 + size // 2_048


def units_to_give(names: int) -> int:
    """Units to give an update to one stream with this many filter names, which may have to be encoded."""
    return 4 + names // 6


def units_to_write(size: int) -> int:
    """Units to write an update of this many bytes to one client, with its copies."""
    return 40 + size // 2_048
