"""Connects the chain's bus to all gRPC subscribers.

Implements: when each subscriber gets an update. At processed, every write and every transaction as it happens; at the
other levels, the contents of a slot when it reaches the level, with the last write of each account. Statuses of slots
are sent at every level. If the hub itself falls behind the bus, every stream ends with an error.
Runs in the chain's event loop; no locks. Not here: gRPC (service.py), matching (filters.py).
"""

import asyncio
import logging
from typing import Any

from actors.geyser_proto import geyser_pb2
from devnode.chain.bus import (
    AccountWritten,
    Closed,
    Event,
    Lagged,
    SlotConfirmed,
    SlotDead,
    SlotFinalized,
    SlotOpened,
    SlotsAbandoned,
    SlotSealed,
    TransactionLanded,
)
from devnode.faults.plan import Stream
from devnode.geyser.filters import Filter
from devnode.geyser.messages import AccountUpdate, SlotUpdate, TransactionUpdate, Update
from devnode.geyser.outbox import Outbox
from devnode.geyser.refusals import CUT, LAGGED_RECEIVING, End
from devnode.geyser.replays import GrpcSubscription, refusal, replay
from devnode.geyser.slot_logs import REPLAY_SLOTS, SlotLog, SlotLogs
from devnode.records.commitment import Commitment
from devnode.records.records import Block
from devnode.rpc.node import Node

logger = logging.getLogger("devnode")
_KINDS: tuple[type, ...] = (
    AccountWritten,
    TransactionLanded,
    SlotOpened,
    SlotSealed,
    SlotDead,
    SlotsAbandoned,
    SlotConfirmed,
    SlotFinalized,
)


class GrpcHub:
    def __init__(self, node: Node, replay_slots: int = REPLAY_SLOTS) -> None:
        self._node = node
        self.logs = SlotLogs(replay_slots)
        # Each with its running replay, or None.
        self._subscribers: dict[GrpcSubscription, asyncio.Task[None] | None] = {}
        self._events = node.chain.bus.subscribe(*_KINDS)
        node.faults.streams[Stream.GRPC] = self
        self._now_ms = node.clock.now_ms()
        self.logs.open(node.chain.levels.building.slot, None)  # This slot has no updates yet.

    # Subscribers.

    def join(self, outbox: Outbox) -> GrpcSubscription:
        """Add a subscriber, which gets no updates until it subscribes."""
        subscription = GrpcSubscription(outbox)
        self._subscribers[subscription] = None
        return subscription

    def leave(self, subscription: GrpcSubscription) -> None:
        """Remove a subscriber; a second call changes nothing."""
        self._stop_replay(subscription)
        self._subscribers.pop(subscription, None)

    def subscribe(self, subscription: GrpcSubscription, wanted: Filter, from_slot: int | None) -> None:
        """Replace the filters of a subscriber, and stop its replay if it has one."""
        self.pump()  # Earlier events go to the former filters.
        self._stop_replay(subscription)
        end = None if from_slot is None else refusal(self.logs, wanted.level, from_slot)
        if end is not None:
            subscription.outbox.end(end)
            return
        subscription.subscribe(wanted, from_slot)
        if from_slot is not None:
            self.logs.hold(subscription, from_slot - 1)
            task = self._subscribers[subscription] = asyncio.create_task(replay(self.logs, subscription))
            subscription.outbox.end_on_failure(task)

    def _stop_replay(self, subscription: GrpcSubscription) -> None:
        task = self._subscribers.get(subscription)
        if task is not None:
            task.cancel()
            self._subscribers[subscription] = None
        self.logs.release(subscription)

    def cut(self) -> None:
        """End every stream at once, without its queued updates (fault injection)."""
        for subscription in self._subscribers:
            subscription.outbox.cut(CUT)

    def counts(self) -> dict[str, Any]:
        """The number of open streams, and of the named filters of all streams."""
        return {
            "streams": len(self._subscribers),
            "filters": sum(subscription.filter.names for subscription in self._subscribers),
        }

    def end_all(self, end: End) -> None:
        for subscription in self._subscribers:
            subscription.outbox.end(end)

    @property
    def delivers(self) -> bool:
        """Whether new updates are sent. Otherwise fault injection drops them; replays still have them."""
        return self._node.faults.delivers(Stream.GRPC)

    # Events.

    async def run(self) -> None:
        """Handle events until cancelled."""
        while True:
            try:
                event = await self._events.next()
            except Closed:
                return
            except Lagged:
                self._start_over()
            else:
                self._handle_all([event, *self._events.drain()])

    def pump(self) -> None:
        """Handle all queued events."""
        try:
            events = self._events.drain()
        except Lagged:
            self._start_over()
        else:
            self._handle_all(events)

    def _handle_all(self, events: list[Event]) -> None:
        self._now_ms = self._node.clock.now_ms()  # One reading of the clock for all events of one turn.
        for event in events:
            self._handle(event)

    def _handle(self, event: Event) -> None:
        match event:
            case AccountWritten():
                self._on_write(event)
            case TransactionLanded(record):
                log = self.logs.get(record.slot)
                if log is not None:
                    update = TransactionUpdate(record, self._now_ms)
                    log.add_transaction(update)
                    self._send(update, Commitment.PROCESSED)
            case SlotOpened(slot, parent):
                self._on_opened(slot, parent)
            case SlotSealed(block):
                self._on_sealed(block)
            case SlotDead(slot, error):
                log = self.logs.get(slot)
                self._status(slot, None if log is None else log.parent, geyser_pb2.SLOT_DEAD, log, error)
            case SlotsAbandoned(slots):
                for slot in slots:
                    if (log := self.logs.get(slot)) is not None:
                        log.is_abandoned = True
            case SlotConfirmed(slot):
                self._on_reached(slot, Commitment.CONFIRMED, geyser_pb2.SLOT_CONFIRMED)
            case SlotFinalized(slot):
                self._on_reached(slot, Commitment.FINALIZED, geyser_pb2.SLOT_FINALIZED)

    def _on_write(self, event: AccountWritten) -> None:
        log = self.logs.get(event.slot)
        if log is None:
            return  # The slot began before the hub fell behind, so its log would be incomplete.
        signature = None if event.transaction is None else event.transaction.signature
        created_ms = self._now_ms
        update = AccountUpdate(event.slot, event.pubkey, event.account, event.write_version, signature, created_ms)
        log.add_account(update)
        self._send(update, Commitment.PROCESSED)

    def _on_opened(self, slot: int, parent: int) -> None:
        log = self.logs.open(slot, parent)
        self._status(slot, None, geyser_pb2.SLOT_FIRST_SHRED_RECEIVED, log)
        self._status(slot, parent, geyser_pb2.SLOT_CREATED_BANK, log)

    def _on_sealed(self, block: Block) -> None:
        log = self.logs.get(block.slot)
        self._status(block.slot, None, geyser_pb2.SLOT_COMPLETED, log)
        if log is not None:
            log.seal(block, self._now_ms)
            self._send_block(log, Commitment.PROCESSED)
        self._status(block.slot, block.parent_slot, geyser_pb2.SLOT_PROCESSED, log)

    def _on_reached(self, slot: int, level: Commitment, status: geyser_pb2.SlotStatus) -> None:
        log = self.logs.reach(slot, level)
        if log is not None:
            for update in log.writes_and_transactions():
                self._send(update, level)
            self._send_block(log, level)
            self._status(slot, log.parent, status, log)
            return
        stored = self._node.archive.block(slot)
        self._status(slot, None if stored is None else stored.parent_slot, status, None)

    # Sending.

    def _send_block(self, log: SlotLog, level: Commitment) -> None:
        wants_entries = any(one.filter.entries and one.filter.level is level for one in self._subscribers)
        for update in log.block(wants_entries):
            self._send(update, level)

    def _status(
        self,
        slot: int,
        parent: int | None,
        status: geyser_pb2.SlotStatus,
        log: SlotLog | None,
        error: str | None = None,
    ) -> None:
        update = SlotUpdate(slot, parent, status, self._now_ms, error)
        if log is not None:
            log.statuses.append(update)
        self._send(update, *Commitment)

    def _send(self, update: Update, *levels: Commitment) -> None:
        if self._subscribers and self.delivers:
            for subscription in self._subscribers:
                if subscription.filter.level in levels:
                    subscription.send(update)
            update.forget()

    def _start_over(self) -> None:
        logger.warning("the gRPC streams fell behind the chain: all of them are ended")
        self.end_all(LAGGED_RECEIVING)
        self.logs.clear()
        self._events = self._node.chain.bus.subscribe(*_KINDS)
