"""The view of an account: the slots that its monotonic reads have shown, at each commitment.

Implements: decisions, "Monotonic reads". Pure: steady seconds are an argument. Kept in memory alone, beside the state
of the account and not part of it: a view that is lost with its owner, or given up after VIEW_SECONDS, only makes the
next read ask the nodes for their newest slot, which is at least as high.

A floor is a slot above which nothing was shown, as far as this memory knows. A bound is a slot that was shown by
somebody who was not told the floor: by a call that was held before the account came into this memory, or by the racer
of a send. A bound may be too low, and a racer has it from one node, so whoever reads it judges whether to believe it.
"""

from dataclasses import dataclass, field

# Longer than the longest call, so that no call that was told a floor before it was given up is charged after. With a
# chain that started again, an account's monotonic reads are refused for so long.
VIEW_SECONDS = 60
_LEVELS = 3  # processed, confirmed and finalized.
Told = tuple[int, int, int, int, int, int]  # The floors, then the bounds; 0: there is none.
NOTHING: Told = (0, 0, 0, 0, 0, 0)


@dataclass(slots=True)
class View:
    """slots, shown_at: three floors, then three bounds. Steady seconds."""

    slots: list[int] = field(default_factory=lambda: [0] * (2 * _LEVELS))
    shown_at: list[int] = field(default_factory=lambda: [0] * (2 * _LEVELS))

    def show(self, shown: tuple[int, int, int], is_held_here: bool, now: int) -> None:
        """shown: as SettleRequest has it. is_held_here: the hold of this call is in this memory, so the call was told
        the floors of this memory."""
        for level, slot in enumerate(shown):
            if not slot:
                continue
            place = level if slot > 0 and is_held_here else level + _LEVELS
            self._give_up(place, now)
            if abs(slot) >= self.slots[place]:
                self.slots[place], self.shown_at[place] = abs(slot), now

    def told(self, now: int) -> Told:
        for place in range(2 * _LEVELS):
            self._give_up(place, now)
        return tuple(self.slots)  # type: ignore[return-value]

    def _give_up(self, place: int, now: int) -> None:
        if now - self.shown_at[place] > VIEW_SECONDS:
            self.slots[place] = 0
