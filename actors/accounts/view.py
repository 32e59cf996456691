"""The view of an account: the slots that its monotonic reads have shown, at each commitment.

Implements: decisions, "Monotonic reads". Pure: steady seconds are an argument. Kept in memory alone, beside the state
of the account and not part of it: a view that is lost with its owner, or given up after VIEW_SECONDS, only makes the
next read ask the nodes for their newest slot, which is at least as high.

A floor is the highest slot shown, as far as this memory knows. A bound is a slot shown by a call that was not told the
floor: one held before the account was loaded, or the racer of a send. A bound may be too low, and a racer's comes from
one node, so each reader decides whether to trust it.
"""

from dataclasses import dataclass, field

# Longer than the longest call, so that every call that was told a floor ends before the floor is given up. After the
# chain was restarted, an account's monotonic reads are refused for this long.
VIEW_SECONDS = 60
_LEVELS = 3  # processed, confirmed and finalized.
Told = tuple[int, int, int, int, int, int]  # The floors, then the bounds; 0: none.
NOTHING: Told = (0, 0, 0, 0, 0, 0)


@dataclass(slots=True)
class View:
    """slots, shown_at (steady seconds): three floors, then three bounds."""

    slots: list[int] = field(default_factory=lambda: [0] * (2 * _LEVELS))
    shown_at: list[int] = field(default_factory=lambda: [0] * (2 * _LEVELS))

    def show(self, shown: tuple[int, int, int], is_held_here: bool, now: int) -> None:
        """Record shown slots, as SettleRequest has them. is_held_here: this owner granted the call's hold, and told it
        the floors."""
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
