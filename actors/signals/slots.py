"""The recent slots of one stream, and which of them a fork has lost.

Implements: threat 32 (a fork that removes an event). A slot is lost when it is reported dead, or when the
line of parents of a confirmed slot passes it by. Pure.
"""

from collections.abc import Iterator

SLOTS_MAX = 4_096  # About 27 minutes; the stream confirms within seconds.


class SlotTree:
    def __init__(self) -> None:
        self._parents: dict[int, int] = {}
        self._confirmed: int | None = None
        self.lost: set[int] = set()

    def note(self, slot: int, parent: int | None) -> None:
        """Record a slot and its parent, in any order and repeatedly."""
        if parent is not None and parent < slot:
            self._parents[slot] = parent
            while len(self._parents) > SLOTS_MAX:
                self._parents.pop(min(self._parents))

    def died(self, slot: int) -> tuple[int, ...]:
        """Return the slots that are newly lost."""
        return self._lose({slot})

    def confirmed(self, slot: int) -> tuple[int, ...]:
        """Return the slots that are lost now and were not before, because the line of this slot passes them by."""
        if self._confirmed is not None and slot <= self._confirmed:
            return ()
        line = set(self._line(slot))
        oldest = min(line)
        self._confirmed = slot
        lost = self._lose({other for other in self._parents if oldest < other < slot and other not in line})
        self._parents = {each: parent for each, parent in self._parents.items() if each >= oldest}
        return lost

    def _line(self, slot: int) -> Iterator[int]:
        """Yield the slot and its known ancestors, down to the slot that was confirmed before it."""
        yield slot
        while (parent := self._parents.get(slot)) is not None:
            yield parent
            if self._confirmed is not None and parent <= self._confirmed:
                return
            slot = parent

    def _lose(self, slots: set[int]) -> tuple[int, ...]:
        fresh = tuple(sorted(slots - self.lost))
        self.lost.update(fresh)
        while len(self.lost) > SLOTS_MAX:
            self.lost.discard(min(self.lost))
        return fresh
