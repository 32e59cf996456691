"""One subscriber: its filters, and its position in a replay.

Implements: during a replay, the only new updates that the subscriber gets are statuses of slots that it has replayed
already. All other updates come when their slot is replayed, so none is missed and none is sent twice.
Synchronous. Not here: the replay itself (replays.py), gRPC (service.py).
"""

from devnode.geyser.filters import Filter
from devnode.geyser.messages import SlotUpdate, Update
from devnode.geyser.outbox import Outbox


class Subscription:
    def __init__(self, outbox: Outbox) -> None:
        self.outbox = outbox
        self.filter = Filter()  # Matches nothing until the first request.
        self._replayed_slot: int | None = None

    def subscribe(self, wanted: Filter, from_slot: int | None) -> None:
        """Replace the filters; queued updates are still sent."""
        self.filter = wanted
        self._replayed_slot = None if from_slot is None else from_slot - 1

    @property
    def replayed_slot(self) -> int | None:
        """The newest replayed slot; None: there is no replay, and the subscriber gets new updates."""
        return self._replayed_slot

    def send(self, update: Update) -> None:
        """Queue a new update, at the subscription's level, if the filters match it."""
        if self._replayed_slot is None or (isinstance(update, SlotUpdate) and update.slot <= self._replayed_slot):
            for head, body in self.filter.messages(update):
                self.outbox.put(head, body)

    def send_replayed(self, update: Update) -> None:
        """Queue an update of the past, if the filters match it."""
        for head, body in self.filter.messages(update):
            self.outbox.put_replayed(head, body)

    def replayed(self, slot: int) -> None:
        self._replayed_slot = slot

    def end_replay(self) -> None:
        """Send all new updates from now on."""
        self._replayed_slot = None
