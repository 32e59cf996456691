"""Connects the chain's bus to all WebSocket connections, and takes only the events that subscriptions need.

Implements: subscribing and unsubscribing. The hub takes events of single transactions and writes only while a
subscription needs them, so the chain does not create them otherwise. If the hub itself falls behind the bus, it has
missed events: every connection ends, and clients subscribe again as after a restart.
Runs in the chain's event loop; no locks. Not here: sockets (door.py), notifications (feed.py).
"""

import logging
from typing import Any

from devnode.chain.bus import (
    AccountWritten,
    Closed,
    Event,
    Lagged,
    SignatureReceived,
    SlotConfirmed,
    SlotDead,
    SlotFinalized,
    SlotOpened,
    SlotsAbandoned,
    SlotSealed,
    TransactionLanded,
)
from devnode.faults.plan import Stream
from devnode.pubsub.feed import Feed
from devnode.pubsub.registry import SUBSCRIPTIONS_MAX, Registry, Subscriber
from devnode.pubsub.topics import AccountTopic, ProgramTopic, SignatureTopic, Topic
from devnode.rpc.errors import internal_error, invalid_params
from devnode.rpc.node import Node

logger = logging.getLogger("devnode")
_SLOTS: frozenset[type] = frozenset((SlotOpened, SlotSealed, SlotDead, SlotsAbandoned, SlotConfirmed, SlotFinalized))


class PubsubHub:
    def __init__(self, node: Node, subscriptions_max: int = SUBSCRIPTIONS_MAX) -> None:
        self._bus = node.chain.bus
        self._registry = Registry(subscriptions_max)
        self._feed = Feed(node, self._registry)
        self._events = self._bus.subscribe(*_SLOTS)
        self._connections: set[Subscriber] = set()
        node.faults.streams[Stream.PUBSUB] = self

    def join(self, subscriber: Subscriber) -> None:
        """Add a connection, which has no subscription yet."""
        self._connections.add(subscriber)

    def subscribe(self, topic: Topic, subscriber: Subscriber) -> int:
        """Subscribe and return the id, which equal topics share. Refuses (RpcError) above the limit of topics."""
        self.pump()  # Earlier events go to earlier subscribers only.
        is_new = self._registry.entry(topic) is None
        identifier = self._registry.add(topic, subscriber)
        if identifier is None:
            raise internal_error("Internal Error: Subscription refused. Node subscription limit reached")
        if is_new:
            if not self._needs() <= self._events.kinds:
                self._resubscribe(self._events.kinds | self._needs())
            self._feed.begin(topic)
        return identifier

    def settle(self, topic: SignatureTopic) -> None:
        """Notify a signature that has already landed. Call it after the reply to the subscription is queued."""
        self._feed.settle(topic)

    def unsubscribe(self, identifier: int, subscriber: Subscriber) -> None:
        """End a subscription. Refuses (RpcError) an id that the subscriber does not have."""
        if not self._registry.remove(identifier, subscriber):
            raise invalid_params("Invalid subscription id.")

    def leave(self, subscriber: Subscriber) -> None:
        """Remove a connection and its subscriptions; a second call changes nothing."""
        self._connections.discard(subscriber)
        self._registry.remove_all(subscriber)

    def cut(self) -> None:
        """End every connection at once, without a message (fault injection)."""
        for subscriber in self._connections:
            subscriber.cut()
            self._registry.remove_all(subscriber)

    def counts(self) -> dict[str, Any]:
        """The numbers of connections and of their subscriptions, in all and by subscribe method."""
        by_method = self._registry.by_method()
        return {
            "connections": len(self._connections),
            "subscriptions": sum(by_method.values()),
            "by_method": by_method,
        }

    async def run(self) -> None:
        """Handle events until cancelled."""
        while True:
            try:
                event = await self._events.next()
            except Closed:
                continue  # `_resubscribe` has replaced the subscription.
            except Lagged:
                self._start_over()
            else:
                self._handle(event)
                self.pump()

    def pump(self) -> None:
        """Handle all queued events."""
        try:
            events = self._events.drain()
        except Lagged:
            self._start_over()
        else:
            for event in events:
                self._handle(event)

    def _handle(self, event: Event) -> None:
        self._feed.handle(event)
        # Give event types up at most once a slot, because signature subscriptions come and go all the time.
        if isinstance(event, SlotSealed) and (needs := self._needs()) != self._events.kinds:
            self._resubscribe(needs)

    def _needs(self) -> frozenset[type]:
        listens, needs = self._registry.listens, set(_SLOTS)
        if listens(AccountTopic, ProgramTopic):
            needs.add(AccountWritten)
        if listens(SignatureTopic):
            needs |= {SignatureReceived, TransactionLanded}
        return frozenset(needs)

    def _resubscribe(self, kinds: frozenset[type]) -> None:
        """Change the event types without missing or repeating events: no event can occur between the two calls."""
        before, self._events = self._events, self._bus.subscribe(*kinds)
        before.close()
        try:
            events = before.drain()
        except Lagged:
            self._start_over()
        else:
            for event in events:
                self._feed.handle(event)

    def _start_over(self) -> None:
        logger.warning("the subscriptions fell behind the chain: all WebSocket connections are ended")
        for subscriber in self._registry.subscribers():
            subscriber.cut()
            self._registry.remove_all(subscriber)
        self._feed.reset()
        self._events.close()
        self._events = self._bus.subscribe(*_SLOTS)
