"""Telling the past again while the chain goes on.

Implements: `from_slot`: slot after slot, each whole, with a pause between them so that a long replay delays nobody;
then the present without a gap. Upstream's order within a slot: writes and transactions as they came, entries, block,
block meta, statuses. Refusals where the past is gone, is not kept, or has not come yet.
Not here: what is kept (slot_logs.py), who else is told (hub.py).
"""

import asyncio

from actors.devnode.chain.commitment import Commitment
from actors.devnode.geyser.filters import Filter
from actors.devnode.geyser.messages import Update
from actors.devnode.geyser.refusals import (
    NO_REPLAY,
    NOTHING_TO_REPLAY,
    End,
    no_longer_available,
)
from actors.devnode.geyser.slot_logs import SlotLog, SlotLogs
from actors.devnode.geyser.subscription import Subscription


def refusal(logs: SlotLogs, level: Commitment, from_slot: int) -> End | None:
    first = logs.first_slot
    if first is None:
        return NO_REPLAY
    if from_slot < first:
        return no_longer_available(from_slot, first)
    if not any(log.has_reached(level) for log in logs.after(from_slot - 1)):
        return NOTHING_TO_REPLAY
    return None


async def replay(logs: SlotLogs, subscription: Subscription) -> None:
    """Until the subscriber hears the present. Cancel it when the subscriber asks for something else."""
    while (log := _next(logs, subscription)) is not None:
        for update in _whole(log, subscription.filter):
            _tell(subscription, update)
        subscription.replayed(log.slot)
        logs.hold(subscription, log.slot)
        if _next(logs, subscription) is None:
            break  # Nothing may happen between the last slot's end, or what there is of it, and the present.
        await asyncio.sleep(0)
    assert subscription.replayed_slot is not None
    for later in logs.after(subscription.replayed_slot):  # Their contents come when they reach the level.
        for status in later.statuses:
            _tell(subscription, status)
    subscription.catch_up()
    logs.release(subscription)


def _next(logs: SlotLogs, subscription: Subscription) -> SlotLog | None:
    assert subscription.replayed_slot is not None
    return logs.next_after(subscription.replayed_slot, subscription.filter.level)


def _whole(log: SlotLog, wanted: Filter) -> list[Update]:
    """Of a slot that never reached the level, only what was told to everybody: its statuses."""
    if not log.has_reached(wanted.level):
        return [*log.statuses]
    return [*log.writes_and_transactions(), *log.block(with_entries=bool(wanted.entries)), *log.statuses]


def _tell(subscription: Subscription, update: Update) -> None:
    subscription.hear_again(update)
    update.forget()
