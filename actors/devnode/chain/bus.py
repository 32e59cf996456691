"""What the chain tells the rest of the node: typed events, to bounded subscriptions.

Implements: one place that pubsub, streams, fault injection, a block engine or another entrance can hang on without
a change to the chain. Publishing never waits; a subscription that overflows is cut off and says so, because a
consumer that silently missed events is worse than one that knows. A node that lags tells all events that many
slots late, in their order.
Runs in the loop of the owner; no locks. Events of which every transaction makes some are msgspec's structs: a frozen
dataclass takes eight times as long. Not here: encoding of any kind.
"""

import asyncio
from collections import deque
from dataclasses import dataclass, field

import msgspec
from solders.account import Account
from solders.pubkey import Pubkey

from actors.devnode.chain.records import Block, TransactionRecord


@dataclass(frozen=True, slots=True)
class SlotOpened:
    """A slot is being built."""

    slot: int
    parent_slot: int


class SignatureReceived(msgspec.Struct, frozen=True):
    """A well-formed transaction reached the node; whether it lands is not known yet."""

    slot: int
    signature: str


class AccountWritten(msgspec.Struct, frozen=True):
    """account None: closed. transaction None: written by the chain itself (genesis, clock)."""

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
    """The block turned out invalid: instead of SlotSealed, and SlotsAbandoned follows at once."""

    slot: int
    error: str


@dataclass(frozen=True, slots=True)
class SlotsAbandoned:
    """A fork that was told as processed, and will never be confirmed: its transactions did not land, its hashes are
    unknown. What is built next stands on parent_slot."""

    slots: tuple[int, ...]  # Oldest first.
    parent_slot: int
    restored: tuple[tuple[Pubkey, Account | None], ...]  # Contents before the fork, of all it wrote. None: absent.


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
    """Iterate with `async for`, or `drain()` what is there. Raises Lagged once it was cut off."""

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
                return  # Whoever waits was woken by the first.
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
    """Events in the order they happened, to each subscription that asked for their kind."""

    def __init__(self) -> None:
        self._by_kind: dict[type, tuple[Subscription, ...]] = {}
        self._slot = 0
        self._hold_slots = 0
        self._held: deque[tuple[int, Event]] = deque()  # With the slot in which each is told.

    def subscribe(self, *kinds: type, capacity: int = 100_000) -> Subscription:
        assert kinds, "a subscription without kinds hears nothing"
        subscription = Subscription(frozenset(kinds), capacity, self)
        for kind in kinds:
            self._by_kind[kind] = (*self._by_kind.get(kind, ()), subscription)
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """Stop delivering; a second time changes nothing."""
        for kind in subscription.kinds:
            left = tuple(known for known in self._by_kind.get(kind, ()) if known is not subscription)
            if left:
                self._by_kind[kind] = left
            else:
                self._by_kind.pop(kind, None)

    def wants(self, kind: type) -> bool:
        """Whether anybody listens: lets the chain skip building events that nobody hears."""
        return kind in self._by_kind

    def publish(self, event: Event) -> None:
        if self._hold_slots:
            if isinstance(event, SlotOpened):
                self._slot = event.slot
                self._tell_held(event.slot)
            self._held.append((self._slot + self._hold_slots, event))
        else:
            self._deliver(event)

    def hold(self, slots: int, building_slot: int) -> None:
        """Tell what happens from now on that many slots late; with 0, what is held at once."""
        self._slot, self._hold_slots = building_slot, slots
        self._held = deque((min(due, building_slot + slots), event) for due, event in self._held)
        self._tell_held(building_slot)

    def _tell_held(self, slot: int) -> None:
        while self._held and self._held[0][0] <= slot:
            self._deliver(self._held.popleft()[1])

    def _deliver(self, event: Event) -> None:
        for subscription in self._by_kind.get(type(event), ()):
            subscription.offer(event)
