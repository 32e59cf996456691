"""The slices that one actor holds, as far as it knows, with their epochs, and those that it has given away.

Implements: design, "Owners, for every kind of actor". Pure: times are arguments, in seconds of one clock that never
jumps. The store decides; this is an actor's own view of it. Not here: asking the store (keeper.py).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from actors.ownership.api import Owned

# A mover takes given slices within a few seconds. If it died, the slices must not stay without an owner.
GIVEN_SECONDS_MAX = 30.0


class Reconciled(NamedTuple):
    """lost: other owners have them. resumed: given long ago and taken by nobody, so they are served again."""

    lost: Sequence[int]
    resumed: Sequence[int]


@dataclass(slots=True)
class HeldSlices:
    """A given slice keeps its epoch: unfinished work may be written until another actor claims it."""

    _epochs: dict[int, int] = field(default_factory=dict)
    _given: dict[int, float] = field(default_factory=dict)

    def epoch(self, number: int) -> int | None:
        """Return the epoch that a write of this slice carries. None: this actor may not write it."""
        return self._epochs.get(number)

    def serves(self, number: int) -> bool:
        """Return whether new work of this slice is taken."""
        return number in self._epochs and number not in self._given

    def serving(self) -> dict[int, int]:
        """Return the epoch of each slice that is served."""
        return {number: epoch for number, epoch in self._epochs.items() if number not in self._given}

    def took(self, slices: Iterable[int], epoch: int) -> None:
        for number in slices:
            self._epochs[number] = epoch
            self._given.pop(number, None)

    def give(self, slices: Iterable[int], now: float) -> list[int]:
        """Stop serving these; return those that were served."""
        mine = [number for number in slices if self.serves(number)]
        self._given.update(dict.fromkeys(mine, now))
        return mine

    def lose(self, number: int, epoch: int) -> None:
        """Record a refused write. A newer epoch, taken in the meantime, stays."""
        if self._epochs.get(number) == epoch:
            del self._epochs[number]
            self._given.pop(number, None)

    def reconcile(self, stored: Mapping[int, Owned], holder: str, now: float) -> Reconciled:
        """Compare with what is stored. A slice that is stored with another epoch is lost, also where the name is the
        same: then this process was cut off, and its successor has it."""
        lost = [number for number, epoch in self._epochs.items() if stored.get(number) != Owned(holder, epoch)]
        for number in lost:
            self.lose(number, self._epochs[number])
        resumed = [number for number, at in self._given.items() if now - at >= GIVEN_SECONDS_MAX]
        for number in resumed:
            del self._given[number]
        return Reconciled(lost, resumed)
