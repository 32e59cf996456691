"""What one call knows of its account's view: the slot below which nothing may be answered, and the slots it has shown.

Implements: decisions, "Monotonic reads". Nothing here asks a node; a variable says under which view a task works.

The owner of the account tells floors and bounds with its hold, and hears the slots that were shown with the charge
(accounts/view.py). A floor is known for certain: nothing above it was shown to this account. A bound may be too low,
and is heeded as far as it is believed. Zero is nothing known.
"""

from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from typing import Any, TypeVar

from actors.upstream.node_health import Commitment

_R = TypeVar("_R")

Slots = tuple[int, int, int]  # At processed, confirmed and finalized.
Told = tuple[int, int, int, int, int, int]  # The floors, then the bounds.
_LEVELS = len(Commitment)


class AccountView:
    """View of one call. told: from the owner of the account; None: it told nothing."""

    __slots__ = ("_bounds", "_floors", "_shown")

    def __init__(self, told: Told | None) -> None:
        self._floors = list(told[:_LEVELS]) if told else [0] * _LEVELS
        self._bounds = list(told[_LEVELS:]) if told else [0] * _LEVELS
        self._shown = [0] * _LEVELS

    def floor(self, commitment: Commitment, slot_max: int) -> int:
        """The lowest slot that may answer. What is finalized is confirmed, and what is confirmed was processed.
        slot_max: a bound above this is of a node that lied, and does not count."""
        believed = [slot for slot in self._bounds[commitment:] if slot <= slot_max]
        return max(*self._floors[commitment:], 0, *believed)

    def is_certain(self, commitment: Commitment) -> bool:
        return self._floors[commitment] > 0

    def make_certain(self, commitment: Commitment, newest: int, slot_max: int) -> None:
        """newest: a slot at least as high as every one that was shown before."""
        self._floors[commitment] = max(newest, self.floor(commitment, slot_max))

    def show(self, commitment: Commitment, slot: int) -> None:
        """Record a slot that the answer shows."""
        self._shown[commitment] = max(self._shown[commitment], slot)

    def shown(self) -> Slots | None:
        """What the owner of the account is told; below zero, where the call did not know the floor. None: nothing was
        shown."""
        if not any(self._shown):
            return None
        processed, confirmed, finalized = (
            shown if floor else -shown for shown, floor in zip(self._shown, self._floors, strict=True)
        )
        return processed, confirmed, finalized


_VIEW: ContextVar[AccountView | None] = ContextVar("account_view", default=None)
current_view = _VIEW.get  # None: this task's calls may be answered from any slot.


def under(
    view: AccountView | None, ask: Callable[..., Coroutine[Any, Any, _R]], *arguments: object
) -> Coroutine[Any, Any, _R]:
    """Ask with every question to a node under this view, in the tasks that the asked one begins too."""
    if view is None and _VIEW.get() is None:
        return ask(*arguments)  # Nearly always; a coroutine in between would cost each call 0.3 µs.
    return _under(view, ask, *arguments)


async def _under(view: AccountView | None, ask: Callable[..., Coroutine[Any, Any, _R]], *arguments: object) -> _R:
    before = _VIEW.set(view)
    try:
        return await ask(*arguments)
    finally:
        _VIEW.reset(before)
