"""Replays past slots to one subscriber while the chain goes on.

Implements: `from_slot`: one slot after the other, with a turn of the event loop between them so that a long replay
does not delay other work; then new updates, without a gap. Yellowstone's order within a slot: writes and transactions
as they came, entries, block, block meta, statuses. Refuses slots that are too old, not kept, or not reached yet.
Not here: the logs (slot_logs.py), other subscribers (hub.py).
"""

import asyncio

from devnode.geyser.filters import Filter
from devnode.geyser.messages import Update
from devnode.geyser.refusals import (
    NO_REPLAY,
    NOTHING_TO_REPLAY,
    End,
    no_longer_available,
)
from devnode.geyser.slot_logs import SlotLog, SlotLogs
from devnode.geyser.subscription import Subscription
from devnode.records.commitment import Commitment


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


async def replay(logs: SlotLogs, subscription: Subscription) -> None:
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


def _next(logs: SlotLogs, subscription: Subscription) -> SlotLog | None:
    assert subscription.replayed_slot is not None
    return logs.next_after(subscription.replayed_slot, subscription.filter.level)


def _updates(log: SlotLog, wanted: Filter) -> list[Update]:
    """All updates of a slot; of a slot that never reached the level, only its statuses."""
    if not log.has_reached(wanted.level):
        return [*log.statuses]
    return [*log.writes_and_transactions(), *log.block(with_entries=bool(wanted.entries)), *log.statuses]


def _send(subscription: Subscription, update: Update) -> None:
    subscription.send_replayed(update)
    update.forget()
