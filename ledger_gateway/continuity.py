"""Tracks a stream of signals: which events it has seen, and where it continues after a break.

Implements: decisions, "one signal" and "cursors and gaps". Pure.
"""

from collections import OrderedDict

from ledger_gateway.signals import Signal, SignalGap

SEEN_MAX = 20_000  # A replay after a break repeats far fewer.


class Continuity:
    """cursor: where to continue; None until the first event, if no start is known."""

    def __init__(self, cursor: str | None = None, seen_max: int = SEEN_MAX) -> None:
        self.cursor = cursor
        self._seen: OrderedDict[tuple[str | None, ...], None] = OrderedDict()
        self._seen_max = seen_max

    def take(self, event: Signal | SignalGap) -> bool:
        """Record an event. False: it was seen before.

        A correction is another event than the signal that it corrects, and each correction is a separate event.
        """
        if isinstance(event, SignalGap):
            self.cursor = event.to_cursor or self.cursor
            return True
        key = (*event.identity, event.correction, event.cursor if event.correction else None)
        is_new = key not in self._seen
        self._seen[key] = None
        self._seen.move_to_end(key)
        if len(self._seen) > self._seen_max:
            self._seen.popitem(last=False)
        self.cursor = event.cursor or self.cursor
        return is_new
