"""Replays past slots to one subscriber while the chain continues.

Implements: `from_slot`: one slot after the other, with a turn of the event loop between them so that a long replay does
not delay other work; then new updates, without a gap. During a replay, the only new updates that the subscriber gets
are statuses of slots that it has replayed already; all others come when their slot is replayed, so none is missed and
none is sent twice. Yellowstone's order within a slot: writes and transactions as they came, entries, block, block meta,
statuses. Refuses slots that are too old, not kept, or not reached yet.
Not here: the logs (slot_logs.py), other subscribers (hub.py), gRPC (service.py).
"""

import asyncio

from devnode.geyser.filters import Filter
from devnode.geyser.messages import SlotUpdate, Update
from devnode.geyser.outbox import Outbox
from devnode.geyser.refusals import (
    NO_REPLAY,
    NOTHING_TO_REPLAY,
    End,
    no_longer_available,
)
from devnode.geyser.slot_logs import SlotLog, SlotLogs
from devnode.records.commitment import Commitment


class GrpcSubscription:
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


def refusal(logs: SlotLogs, level: Commitment, from_slot: int) -> End | None:
    """Why a replay from this slot is not possible; None if it is."""
    first = logs.first_slot
    if first is None:
        return NO_REPLAY
    if from_slot < first:
        return no_longer_available(from_slot, first)
    if not any(log.has_reached(level) for log in logs.after(from_slot - 1)):
        return NOTHING_TO_REPLAY
    return None


async def replay(logs: SlotLogs, subscription: GrpcSubscription) -> None:
    """Replay slots until the subscriber has reached the present. Cancel it when the subscriber sends a new request."""
    while (log := _next(logs, subscription)) is not None:
        for update in _updates(log, subscription.filter):
            _send(subscription, update)
        subscription.replayed(log.slot)
        logs.hold(subscription, log.slot)
        if _next(logs, subscription) is None:
            break  # No await between the last slot and `end_replay`: an event in between would be lost.
        await asyncio.sleep(0)
    assert subscription.replayed_slot is not None
    for later in logs.after(subscription.replayed_slot):  # Their contents are sent when they reach the level.
        for status in later.statuses:
            _send(subscription, status)
    subscription.end_replay()
    logs.release(subscription)


def _next(logs: SlotLogs, subscription: GrpcSubscription) -> SlotLog | None:
    assert subscription.replayed_slot is not None
    return logs.next_after(subscription.replayed_slot, subscription.filter.level)


def _updates(log: SlotLog, wanted: Filter) -> list[Update]:
    """All updates of a slot; of a slot that never reached the level, only its statuses."""
    if not log.has_reached(wanted.level):
        return [*log.statuses]
    return [*log.writes_and_transactions(), *log.block(with_entries=bool(wanted.entries)), *log.statuses]


def _send(subscription: GrpcSubscription, update: Update) -> None:
    subscription.send_replayed(update)
    update.forget()
