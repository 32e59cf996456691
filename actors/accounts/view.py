"""The view of an account: the slots that its monotonic reads have shown, at each commitment.

Implements: decisions, "Monotonic reads". Pure: steady seconds are an argument. Kept in memory alone, beside the state
of the account and not part of it: a view that is lost with its owner, or given up after VIEW_SECONDS, only makes the
next read ask the nodes for their newest slot, which is at least as high.

A floor is certain when the owner knows that nothing above it was shown. Calls that were held before the account came
into this memory were told other floors, so they show bounds alone; and so does a racer with what it saw of a send.
"""

from dataclasses import dataclass, field

Slots = tuple[int, int, int]  # At processed, confirmed and finalized; below zero: not certain.
# Longer than the longest call, so that no call that was told a floor before it was given up is charged after. With a
# chain that started again, an account's monotonic reads are refused for so long.
VIEW_SECONDS = 60
NOTHING: Slots = (0, 0, 0)


@dataclass(slots=True)
class View:
    slots: list[int] = field(default_factory=lambda: [0, 0, 0])
    certain: list[bool] = field(default_factory=lambda: [False] * 3)
    shown_at: list[int] = field(default_factory=lambda: [0, 0, 0])  # Steady seconds.

    def show(self, shown: Slots, is_held_here: bool, now: int) -> None:
        """is_held_here: the hold of this call is in this memory, so the call was told the floors of this memory."""
        for level, slot in enumerate(shown):
            if not slot:
                continue
            self._give_up(level, now)
            if abs(slot) >= self.slots[level]:
                self.slots[level], self.shown_at[level] = abs(slot), now
            self.certain[level] |= slot > 0 and is_held_here

    def told(self, now: int) -> Slots:
        for level in range(len(self.slots)):
            self._give_up(level, now)
        processed, confirmed, finalized = (
            slot if certain else -slot for slot, certain in zip(self.slots, self.certain, strict=True)
        )
        return processed, confirmed, finalized

    def _give_up(self, level: int, now: int) -> None:
        if now - self.shown_at[level] > VIEW_SECONDS:
            self.slots[level], self.certain[level] = 0, False
