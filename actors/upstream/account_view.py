"""What one call knows of its account's view: the slot below which nothing may be answered, and the slots it has shown.

Implements: decisions, "Monotonic reads". Pure, but for the variable that says under which view this task works.

The owner of the account tells the floors with its hold, and hears the slots that were shown with the charge
(accounts/view.py): three numbers each, one for each commitment. A number above zero is certain: nothing above it was
shown to this account. One below zero, without its sign, is a lower bound alone, and zero is nothing known.
"""

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import TypeVar

from actors.upstream.node_health import Commitment

_R = TypeVar("_R")

Slots = tuple[int, int, int]  # At processed, confirmed and finalized.
NOTHING: Slots = (0, 0, 0)


class AccountView:
    """Of one call. told: the floors, as the owner of the account told them; None: it told none."""

    __slots__ = ("_certain", "_floors", "_shown")

    def __init__(self, told: Slots | None) -> None:
        self._floors = [abs(slot) for slot in told or NOTHING]
        self._certain = [slot > 0 for slot in told or NOTHING]
        self._shown = [0, 0, 0]

    def floor(self, commitment: Commitment, slot_max: int) -> int:
        """The lowest slot that may answer. What is finalized is confirmed, and what is confirmed was processed.
        slot_max: a bound above this is of a node that lied, and does not count."""
        floors = zip(self._floors[commitment:], self._certain[commitment:], strict=True)
        return max((slot for slot, is_certain in floors if is_certain or slot <= slot_max), default=0)

    def is_certain(self, commitment: Commitment) -> bool:
        return self._certain[commitment]

    def make_certain(self, commitment: Commitment, newest: int, slot_max: int) -> None:
        """newest: a slot at least as high as every one that was shown before."""
        self._floors[commitment] = max(newest, self.floor(commitment, slot_max))
        self._certain[commitment] = True

    def show(self, commitment: Commitment, slot: int) -> None:
        """The answer names this slot."""
        self._shown[commitment] = max(self._shown[commitment], slot)

    def shown(self) -> Slots | None:
        """What the owner of the account is told. None: nothing was shown."""
        if not any(self._shown):
            return None
        processed, confirmed, finalized = (
            slot if certain else -slot for slot, certain in zip(self._shown, self._certain, strict=True)
        )
        return processed, confirmed, finalized


_VIEW: ContextVar[AccountView | None] = ContextVar("account_view", default=None)
current_view = _VIEW.get  # None: the calls of this task may be answered from any slot.


async def under(view: AccountView | None, ask: Callable[..., Awaitable[_R]], *arguments: object) -> _R:
    """Ask with every question to a node under this view, in the tasks that the asked one begins too."""
    if view is None:
        return await ask(*arguments)
    before = _VIEW.set(view)
    try:
        return await ask(*arguments)
    finally:
        _VIEW.reset(before)
