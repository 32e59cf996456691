"""Which slot each commitment level has reached.

Implements: processed is the slot being built; confirmed is the block `confirm_depth` blocks below it, or an older one
until the journal has written that; finalized is the block `root_depth` blocks below the slot being built. A node that
lags shows all three as they were some slots ago; the chain itself always builds the newest slot.
Pure: no clock, no I/O. Not here: account contents at these slots (account_history.py).
"""

from collections import deque
from dataclasses import dataclass, field
from enum import Enum, unique


@unique
class Commitment(Enum):
    PROCESSED = "processed"
    CONFIRMED = "confirmed"
    FINALIZED = "finalized"


SEALED_KEPT = 1_200  # More than the longest lag that can be set.


@dataclass(frozen=True, slots=True)
class Sealed:
    slot: int
    height: int
    transaction_count: int = field(default=0, compare=False)  # Of the whole chain at its end; 0 until it is sealed.


@dataclass(slots=True)
class SlotLevels:
    """The slot being built, and the sealed slots above the root.

    root_depth: blocks between the slot being built and the finalized one, at least 2.
    confirm_depth: blocks between the slot being built and the confirmed one, from 1 to root_depth.
    """

    root_depth: int
    building: Sealed
    confirm_depth: int = 1
    _sealed: deque[Sealed] = field(default_factory=deque)
    _past: deque[Sealed] = field(default_factory=lambda: deque(maxlen=SEALED_KEPT))  # With final ones, newest last.
    _confirmed: Sealed | None = None
    _finalized: Sealed | None = None
    _lag_slots: int = 0
    _shown_since: dict[Commitment, int] = field(default_factory=dict)  # While lagging: the oldest slot to show.

    def seal(self, next_slot: int, transaction_count: int = 0) -> None:
        """End the slot being built and open the next one, which is higher by more than 1 where slots are skipped."""
        assert next_slot > self.building.slot, (next_slot, self.building)
        sealed = Sealed(self.building.slot, self.building.height, transaction_count)
        self._sealed.append(sealed)
        self._past.append(sealed)
        self.building = Sealed(next_slot, sealed.height + 1)

    def pass_heights(self, heights: int) -> None:
        """Raise the height of the slot being built, as if so many blocks had been built before it."""
        self.building = Sealed(self.building.slot, self.building.height + heights)

    def abandon(self, first_slot: int) -> None:
        """Forget sealed blocks from the slot on; their heights are used again."""
        assert self._confirmed is None or self._confirmed.slot < first_slot, "a confirmed block cannot be abandoned"
        height = self.building.height
        while self._past and self._past[-1].slot >= first_slot:
            self._past.pop()
        while self._sealed and self._sealed[-1].slot >= first_slot:
            height = self._sealed.pop().height
        self.building = Sealed(self.building.slot, height)

    def lag(self, slots: int) -> None:
        """From now on show the levels as they were that many slots ago. 0 ends the lag.

        No level goes back: a node that falls behind shows its present slots until the lag reaches them."""
        self._shown_since = {level: self.at(level).slot for level in Commitment} if slots else {}
        self._lag_slots = slots

    @property
    def is_lagging(self) -> bool:
        return self._lag_slots > 0

    def confirm(self, slot: int) -> tuple[list[int], list[int]]:
        """Take note that a slot is durable, and confirm what is deep enough.

        Returns the slots that became confirmed and the slots that became finalized, oldest first.
        A second call, or a call for an older slot, changes nothing.
        """
        before = self._confirmed.slot if self._confirmed is not None else -1
        durable = [sealed for sealed in self._sealed if sealed.slot <= slot]
        # Building is one block above the newest durable one.
        height = durable[-1].height - (self.confirm_depth - 1) if durable else 0
        confirmed = [sealed for sealed in durable if sealed.slot > before and sealed.height <= height]
        if not confirmed:
            return [], []
        self._confirmed = confirmed[-1]
        root_height = self._confirmed.height - (self.root_depth - self.confirm_depth)
        finalized: list[int] = []
        while self._sealed and self._sealed[0].height <= root_height:
            self._finalized = self._sealed.popleft()
            finalized.append(self._finalized.slot)
        return [sealed.slot for sealed in confirmed], finalized

    def at(self, level: Commitment) -> Sealed:
        """Slot and height of the level as the node shows it; before the first root, finalized is the oldest block."""
        reached = self._reached(level)
        return reached if not self._lag_slots else self._earlier(level, reached)

    def _reached(self, level: Commitment) -> Sealed:
        if level is Commitment.PROCESSED:
            return self.building
        reached = self._confirmed if level is Commitment.CONFIRMED else self._finalized
        if reached is not None:
            return reached
        return self._sealed[0] if self._sealed else self.building

    def _earlier(self, level: Commitment, reached: Sealed) -> Sealed:
        wanted = max(reached.slot - self._lag_slots, self._shown_since[level])
        if wanted >= reached.slot:
            return reached
        return next((sealed for sealed in reversed(self._past) if sealed.slot <= wanted), self._past[0])

    def level_of(self, slot: int) -> Commitment:
        """The highest level that a slot has reached; the slot is at most the one being built."""
        if self._finalized is not None and slot <= self.at(Commitment.FINALIZED).slot:
            return Commitment.FINALIZED
        if self._confirmed is not None and slot <= self.at(Commitment.CONFIRMED).slot:
            return Commitment.CONFIRMED
        return Commitment.PROCESSED

    def restore(self, sealed: list[Sealed]) -> None:
        """Load durable blocks, oldest first, after a restart; the constructor has set the slot being built."""
        assert not self._sealed and self._confirmed is None, "restore comes before anything else"
        self._sealed.extend(sealed)
        self._past.extend(sealed)
        if sealed:
            self.confirm(sealed[-1].slot)
