"""Signals of one part that wait until other parts have reached their slot, before they are written.

Implements: decisions, "cursors and gaps": the log has the signals of a program in the order of their slots, however
many classifiers share the program. Pure.

Each part tells the slot that it has reached: all its signals of lower slots are in the log. A signal may be written
once every other part has reached its slot. The part that is furthest behind never waits, so one can always go on. Late
signals of a fork, in a slot that all parts have reached, are written at once: the stream sends them out of order, too.
"""

from collections import deque
from collections.abc import Sequence

from actors.signals.events import SignalEvent

NO_OTHERS = 1 << 62  # The other parts' slot when there are none.


class HeldEvents:
    """Grouped by slot, because there are few slots, and a part far ahead holds thousands of events."""

    def __init__(self) -> None:
        self._by_slot: dict[int, deque[SignalEvent]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, events: Sequence[SignalEvent]) -> None:
        for event in events:
            self._by_slot.setdefault(event.slot, deque()).append(event)
        self._count += len(events)

    def take(self, others_reached: int, most: int) -> list[SignalEvent]:
        """Remove and return the oldest ones that may be written; slots in the order in which their first one came."""
        taken: list[SignalEvent] = []
        for slot in [slot for slot in self._by_slot if slot <= others_reached]:
            events = self._by_slot[slot]
            while events and len(taken) < most:
                taken.append(events.popleft())
            if not events:
                del self._by_slot[slot]
        self._count -= len(taken)
        return taken

    def may_go_on(self, others_reached: int) -> bool:
        """Return whether any of them may be written."""
        return bool(self._by_slot) and min(self._by_slot) <= others_reached

    def drop(self, slot: int) -> None:
        """Forget events of a slot that a fork lost before they were written."""
        self._count -= len(self._by_slot.pop(slot, ()))

    def reached(self, slot: int) -> int:
        """Return what this part has reached when it has read up to this slot."""
        return min(slot, *self._by_slot) if self._by_slot else slot

    def position(self, final: int) -> int:
        """Return the position of this part when the chain is final up to this slot."""
        return min(final, min(self._by_slot) - 1) if self._by_slot else final
