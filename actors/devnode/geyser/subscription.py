"""One subscriber: what it asked for, and where it stands in a replay.

Implements: while it is told the past again, it hears of the present only what concerns slots it has already been told
of; everything else comes with the slot itself, so nothing is told twice and nothing is missed.
Synchronous. Not here: going through the past (replays.py), the wire (service.py).
"""

from actors.devnode.geyser.filters import Filter
from actors.devnode.geyser.messages import SlotUpdate, Update
from actors.devnode.geyser.outbox import Outbox


class Subscription:
    def __init__(self, outbox: Outbox) -> None:
        self.outbox = outbox
        self.filter = Filter()  # Nothing, until the first request.
        self._replayed_slot: int | None = None

    def subscribe(self, wanted: Filter, from_slot: int | None) -> None:
        """Replace what was asked before; what waits to be sent is sent all the same."""
        self.filter = wanted
        self._replayed_slot = None if from_slot is None else from_slot - 1

    @property
    def replayed_slot(self) -> int | None:
        """The newest slot that was told again; None: the subscriber hears the present."""
        return self._replayed_slot

    def hear(self, update: Update) -> None:
        """It happens now, at the level that was asked for."""
        if self._replayed_slot is None or (isinstance(update, SlotUpdate) and update.slot <= self._replayed_slot):
            for head, body in self.filter.told(update):
                self.outbox.put(head, body)

    def hear_again(self, update: Update) -> None:
        for head, body in self.filter.told(update):
            self.outbox.put_replayed(head, body)

    def replayed(self, slot: int) -> None:
        self._replayed_slot = slot

    def catch_up(self) -> None:
        """The past is told; from now on the present."""
        self._replayed_slot = None
