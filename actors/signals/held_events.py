"""Signals of one part that were read and are not in the log yet, as another part has not come to their slot.

Implements: decisions, "cursors and gaps": the log has the signals of a program in the order of their slots, however
many classifiers share the program. Pure.

Each part tells the slot that it has reached: all its signals of lower slots are in the log. A signal may be written
once every other part has reached its slot. The part that is furthest behind never waits, so one can always go on. What
a fork brings late, of a slot that all have reached, is written at once: the stream tells it out of order, too.
"""

from collections.abc import Sequence

from actors.signals.events import SignalEvent

NO_OTHERS = 1 << 62  # What the other parts have reached where there is none.


class HeldEvents:
    def __init__(self) -> None:
        self._events: list[SignalEvent] = []

    def __len__(self) -> int:
        return len(self._events)

    def add(self, events: Sequence[SignalEvent]) -> None:
        self._events += events

    def take(self, others_reached: int, most: int) -> list[SignalEvent]:
        """Remove and return the oldest ones that may be written, in the order in which they were added."""
        taken: list[SignalEvent] = []
        kept: list[SignalEvent] = []
        for event in self._events:
            is_taken = event.slot <= others_reached and len(taken) < most
            (taken if is_taken else kept).append(event)
        self._events = kept
        return taken

    def may_go_on(self, others_reached: int) -> bool:
        """Return whether one of them may be written."""
        return bool(self._events) and self._lowest() <= others_reached

    def drop(self, slot: int) -> None:
        """Forget those of a slot that a fork has lost before they were written."""
        self._events = [event for event in self._events if event.slot != slot]

    def reached(self, slot: int) -> int:
        """Return what this part has reached when it has read up to this slot."""
        return min(slot, self._lowest()) if self._events else slot

    def position(self, final: int) -> int:
        """Return the position of this part when the chain is final up to this slot."""
        return min(final, self._lowest() - 1) if self._events else final

    def _lowest(self) -> int:
        return min(event.slot for event in self._events)
