"""Which slot each commitment level has reached.

Implements: processed is the slot being built, confirmed the newest sealed slot that is safely in the journal,
finalized the block a fixed depth of blocks below it. A node that lags shows all three as they were some slots ago;
the slot being built is the same for the chain itself.
Pure: no clock, no I/O. Not here: what the accounts held at those slots (account_history.py).
"""

from collections import deque
from dataclasses import dataclass, field
from enum import Enum, unique


@unique
class Commitment(Enum):
    PROCESSED = "processed"
    CONFIRMED = "confirmed"
    FINALIZED = "finalized"


SEALED_KEPT = 1_200  # Further back than any lag.


@dataclass(frozen=True, slots=True)
class Sealed:
    slot: int
    height: int


@dataclass(slots=True)
class SlotLevels:
    """The building slot and the sealed ones above the root.

    root_depth: blocks between the slot being built and the finalized one, at least 2.
    """

    root_depth: int
    building: Sealed
    _sealed: deque[Sealed] = field(default_factory=deque)
    _past: deque[Sealed] = field(default_factory=lambda: deque(maxlen=SEALED_KEPT))  # Final ones too, newest last.
    _confirmed: Sealed | None = None
    _finalized: Sealed | None = None
    _lag_slots: int = 0
    _shown_since: dict[Commitment, int] = field(default_factory=dict)  # While lagging: nothing older is shown.

    def seal(self, next_slot: int) -> None:
        """The building slot is done; the next one (later where slots were skipped) opens."""
        assert next_slot > self.building.slot, (next_slot, self.building)
        self._sealed.append(self.building)
        self._past.append(self.building)
        self.building = Sealed(next_slot, self.building.height + 1)

    def abandon(self, first_slot: int) -> None:
        """Sealed blocks from the slot on are not of this chain any more; their heights are free again."""
        assert self._confirmed is None or self._confirmed.slot < first_slot, "what was confirmed stays"
        height = self.building.height
        while self._past and self._past[-1].slot >= first_slot:
            self._past.pop()
        while self._sealed and self._sealed[-1].slot >= first_slot:
            height = self._sealed.pop().height
        self.building = Sealed(self.building.slot, height)

    def lag(self, slots: int) -> None:
        """From now on show what was that many slots ago, but nothing older than what is shown now: a node that
        falls behind stands still, it does not run backwards. 0 catches up."""
        self._shown_since = {level: self.at(level).slot for level in Commitment} if slots else {}
        self._lag_slots = slots

    @property
    def is_lagging(self) -> bool:
        return self._lag_slots > 0

    def confirm(self, slot: int) -> tuple[list[int], list[int]]:
        """A sealed slot is durable: it and all before it are confirmed.

        Returns the slots that became confirmed and the slots that became finalized, oldest first.
        Asking again for an older slot changes nothing.
        """
        before = self._confirmed.slot if self._confirmed is not None else -1
        confirmed = [sealed for sealed in self._sealed if before < sealed.slot <= slot]
        if not confirmed:
            return [], []
        self._confirmed = confirmed[-1]
        # Building is one block above the newest confirmed one, so the root is root_depth - 1 below that.
        root_height = self._confirmed.height - (self.root_depth - 1)
        finalized: list[int] = []
        while self._sealed and self._sealed[0].height <= root_height:
            self._finalized = self._sealed.popleft()
            finalized.append(self._finalized.slot)
        return [sealed.slot for sealed in confirmed], finalized

    def at(self, level: Commitment) -> Sealed:
        """Slot and height of the level as it is shown; before the first root, the oldest block known stands for it."""
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
        """Highest level that a slot at or below the building one has reached."""
        if self._finalized is not None and slot <= self.at(Commitment.FINALIZED).slot:
            return Commitment.FINALIZED
        if self._confirmed is not None and slot <= self.at(Commitment.CONFIRMED).slot:
            return Commitment.CONFIRMED
        return Commitment.PROCESSED

    def restore(self, sealed: list[Sealed]) -> None:
        """Take back durable blocks, oldest first, after a restart; the building slot comes from the constructor."""
        assert not self._sealed and self._confirmed is None, "restore comes before anything else"
        self._sealed.extend(sealed)
        self._past.extend(sealed)
        if sealed:
            self.confirm(sealed[-1].slot)
