"""The place among calls in flight that a task holds while it asks a node. A waiting task gives it back, and takes it
again later.

Implements: decisions, "Monotonic reads" (a read that waits for its nodes keeps no other call from them). A shell: a
variable says which place the task holds, so that those who wait need not know who shares out the places.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import TypeVar

_R = TypeVar("_R")


class HeldPlace:
    """One of `places`, for one task. give_up_at: loop time until which the task waits for it."""

    __slots__ = ("_give_up_at", "_is_held", "_places")

    def __init__(self, places: asyncio.Semaphore, give_up_at: float) -> None:
        self._places, self._give_up_at, self._is_held = places, give_up_at, False

    async def take(self) -> bool:
        """Take a place. False: none was free in time."""
        assert not self._is_held
        try:
            async with asyncio.timeout_at(self._give_up_at):
                await self._places.acquire()
        except TimeoutError:
            return False
        self._is_held = True
        return True

    def give_back(self) -> None:
        """Give the place back; repeating it changes nothing."""
        if self._is_held:
            self._is_held = False
            self._places.release()


_PLACE: ContextVar[HeldPlace | None] = ContextVar("held_place", default=None)
current_place = _PLACE.get  # None: this task's calls take no place.


async def holding(place: HeldPlace, ask: Callable[..., Awaitable[_R]], *arguments: object) -> _R:
    """Run `ask` in this task while it holds the place, and give the place back at the end in any case."""
    before = _PLACE.set(place)
    try:
        return await ask(*arguments)
    finally:
        _PLACE.reset(before)
        place.give_back()
