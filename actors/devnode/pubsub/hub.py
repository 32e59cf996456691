"""Between the chain's bus and all connections: hears what somebody listens to, and nothing else.

Implements: subscribing and unsubscribing; events of single transactions and writes are only asked for while a
subscription needs them, so an unwatched chain builds none. If the hub itself falls behind the bus, events were
missed: every connection ends and clients start over, as they do when a node restarts.
Runs in the loop of the chain; no locks. Not here: sockets (door.py), what is told (feed.py).
"""

import logging

from actors.devnode.chain.bus import (
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
from actors.devnode.chain.commitment import Commitment
from actors.devnode.pubsub.feed import Feed
from actors.devnode.pubsub.registry import SUBSCRIPTIONS_MAX, Registry, Subscriber
from actors.devnode.pubsub.topics import AccountTopic, LogsTopic, ProgramTopic, SignatureTopic, Topic
from actors.devnode.rpc.errors import internal_error, invalid_params
from actors.devnode.rpc.node import Node

logger = logging.getLogger("devnode")
_SLOTS: frozenset[type] = frozenset((SlotOpened, SlotSealed, SlotDead, SlotsAbandoned, SlotConfirmed, SlotFinalized))


class Hub:
    def __init__(self, node: Node, subscriptions_max: int = SUBSCRIPTIONS_MAX) -> None:
        self._bus = node.chain.bus
        self._registry = Registry(subscriptions_max)
        self._feed = Feed(node, self._registry)
        self._heard = self._bus.subscribe(*_SLOTS)

    def subscribe(self, topic: Topic, subscriber: Subscriber) -> int:
        """The id, which equal topics share. Refuses (RpcError) when the node is full."""
        self.pump()  # What happened before is told to those who listened then.
        is_new = self._registry.entry(topic) is None
        identifier = self._registry.add(topic, subscriber)
        if identifier is None:
            raise internal_error("Internal Error: Subscription refused. Node subscription limit reached")
        if is_new:
            if not self._needs() <= self._heard.kinds:
                self._hear(self._heard.kinds | self._needs())
            self._feed.begin(topic)
        return identifier

    def settle(self, topic: SignatureTopic) -> None:
        """After the reply to the subscription has been queued: tell what is known of the signature already."""
        self._feed.settle(topic)

    def unsubscribe(self, identifier: int, subscriber: Subscriber) -> None:
        """Refuses (RpcError) an id that the subscriber does not have."""
        if not self._registry.remove(identifier, subscriber):
            raise invalid_params("Invalid subscription id.")

    def leave(self, subscriber: Subscriber) -> None:
        self._registry.remove_all(subscriber)

    async def run(self) -> None:
        """Tell until cancelled."""
        while True:
            try:
                event = await self._heard.next()
            except Closed:
                continue  # Replaced by one that hears more, or less.
            except Lagged:
                self._start_over()
            else:
                self._handle(event)
                self.pump()

    def pump(self) -> None:
        """Handle all events that are there."""
        try:
            events = self._heard.drain()
        except Lagged:
            self._start_over()
        else:
            for event in events:
                self._handle(event)

    def _handle(self, event: Event) -> None:
        self._feed.handle(event)
        # Fewer kinds only once in a slot: signatures come and go all the time.
        if isinstance(event, SlotSealed) and (needs := self._needs()) != self._heard.kinds:
            self._hear(needs)

    def _needs(self) -> frozenset[type]:
        listens, needs = self._registry.listens, set(_SLOTS)
        if listens(AccountTopic, ProgramTopic):
            needs.add(AccountWritten)
        if listens(SignatureTopic):
            needs |= {SignatureReceived, TransactionLanded}
        if listens(LogsTopic, levels=(Commitment.PROCESSED,)):
            needs.add(TransactionLanded)
        return frozenset(needs)

    def _hear(self, kinds: frozenset[type]) -> None:
        """Change the kinds without a gap and without a repetition: nothing happens between the two lines."""
        before, self._heard = self._heard, self._bus.subscribe(*kinds)
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
        self._heard.close()
        self._heard = self._bus.subscribe(*_SLOTS)
