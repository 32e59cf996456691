"""Typed events of the chain, and bounded subscriptions to them.

Implements: pubsub, gRPC streams, fault injection and the block engine listen here, so that the chain does not know
them. Publishing never waits. A subscription that overflows is cut off and raises `Lagged`: a consumer must not miss
events without knowing. A node that lags publishes all events that many slots late, in their order.
Runs in the chain's event loop; no locks. Events that occur for every transaction are msgspec structs: a frozen
dataclass takes eight times as long to create. Not here: encoding of any kind.
"""

import asyncio
from collections import deque
from dataclasses import dataclass, field

import msgspec
from solders.account import Account
from solders.pubkey import Pubkey

from devnode.records.records import Block, TransactionRecord


@dataclass(frozen=True, slots=True)
class SlotOpened:
    """A slot is being built."""

    slot: int
    parent_slot: int


class SignatureReceived(msgspec.Struct, frozen=True):
    """A well-formed transaction reached the node; it may still be refused."""

    slot: int
    signature: str


class AccountWritten(msgspec.Struct, frozen=True):
    """An account changed. account None: it was closed. transaction None: the chain wrote it (genesis, clock)."""

    slot: int
    pubkey: Pubkey
    account: Account | None
    write_version: int
    transaction: TransactionRecord | None


class TransactionLanded(msgspec.Struct, frozen=True):
    record: TransactionRecord


@dataclass(frozen=True, slots=True)
class SlotSealed:
    """The block is complete, at commitment processed."""

    block: Block


@dataclass(frozen=True, slots=True)
class SlotDead:
    """The block turned out invalid. Published in place of SlotSealed; SlotsAbandoned follows at once."""

    slot: int
    error: str


@dataclass(frozen=True, slots=True)
class SlotsAbandoned:
    """A fork was abandoned: its slots were published as processed and will never be confirmed. Its transactions did
    not land and its blockhashes are unknown. The next block builds on parent_slot."""

    slots: tuple[int, ...]  # Oldest first.
    parent_slot: int
    restored: tuple[tuple[Pubkey, Account | None], ...]  # Accounts the fork wrote, as before it. None: absent.


@dataclass(frozen=True, slots=True)
class SlotSkipped:
    slot: int


@dataclass(frozen=True, slots=True)
class SlotConfirmed:
    slot: int


@dataclass(frozen=True, slots=True)
class SlotFinalized:
    slot: int


Event = (
    SlotOpened
    | SignatureReceived
    | AccountWritten
    | TransactionLanded
    | SlotSealed
    | SlotDead
    | SlotsAbandoned
    | SlotSkipped
    | SlotConfirmed
    | SlotFinalized
)


class Lagged(Exception):
    """The subscription fell behind its capacity and was cut off."""


class Closed(Exception):
    """The subscription was closed by its owner or by the bus."""


@dataclass(slots=True, eq=False)
class Subscription:
    """One consumer's queue: `next()` waits, `drain()` takes all queued events. Both raise Lagged after a cut-off."""

    kinds: frozenset[type]
    capacity: int
    _bus: "Bus"
    _queue: deque[Event] = field(default_factory=deque)
    _wake: asyncio.Event = field(default_factory=asyncio.Event)
    _lagged: bool = False
    _closed: bool = False

    def offer(self, event: Event) -> None:
        queue = self._queue
        if len(queue) < self.capacity:
            queue.append(event)
            if len(queue) > 1:
                return  # The first event in the queue has already woken the reader.
        else:
            self._lagged = True
            queue.clear()
            self._bus.unsubscribe(self)
        self._wake.set()

    async def next(self) -> Event:
        while not self._queue:
            if self._lagged:
                raise Lagged
            if self._closed:
                raise Closed
            self._wake.clear()
            await self._wake.wait()
        return self._queue.popleft()

    def drain(self) -> list[Event]:
        if self._lagged:
            raise Lagged
        events = list(self._queue)
        self._queue.clear()
        return events

    def close(self) -> None:
        self._closed = True
        self._bus.unsubscribe(self)
        self._wake.set()


class Bus:
    """Delivers each event, in order, to the subscriptions of its type."""

    def __init__(self) -> None:
        self._by_kind: dict[type, tuple[Subscription, ...]] = {}
        self._slot = 0
        self._hold_slots = 0
        self._held: deque[tuple[int, Event]] = deque()  # Each with the slot at which it is delivered.

    def subscribe(self, *kinds: type, capacity: int = 100_000) -> Subscription:
        assert kinds, "a subscription needs at least one event type"
        subscription = Subscription(frozenset(kinds), capacity, self)
        for kind in kinds:
            self._by_kind[kind] = (*self._by_kind.get(kind, ()), subscription)
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """Stop delivering to the subscription; a second call changes nothing."""
        for kind in subscription.kinds:
            left = tuple(known for known in self._by_kind.get(kind, ()) if known is not subscription)
            if left:
                self._by_kind[kind] = left
            else:
                self._by_kind.pop(kind, None)

    def wants(self, kind: type) -> bool:
        """Whether the type has a subscription; without one, the chain does not create the event."""
        return kind in self._by_kind

    def publish(self, event: Event) -> None:
        if self._hold_slots:
            if isinstance(event, SlotOpened):
                self._slot = event.slot
                self._deliver_due(event.slot)
            self._held.append((self._slot + self._hold_slots, event))
        else:
            self._deliver(event)

    def hold(self, slots: int, building_slot: int) -> None:
        """Deliver events that many slots late from now on; 0 delivers all held events at once."""
        self._slot, self._hold_slots = building_slot, slots
        self._held = deque((min(due, building_slot + slots), event) for due, event in self._held)
        self._deliver_due(building_slot)

    def _deliver_due(self, slot: int) -> None:
        while self._held and self._held[0][0] <= slot:
            self._deliver(self._held.popleft()[1])

    def _deliver(self, event: Event) -> None:
        for subscription in self._by_kind.get(type(event), ()):
            subscription.offer(event)
