"""The registry of topics and their subscribers.

Implements: subscription ids. As on a node, equal topics share one id for all clients, so that one serialized text
serves every subscriber. Subscribing twice on one connection is one subscription.
Pure. Not here: notifications (feed.py), sending to a client (connection.py).
"""

from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from devnode.pubsub.topics import Topic
from devnode.records.commitment import Commitment

SUBSCRIPTIONS_MAX = 1_000_000  # Agave's default max_active_subscriptions.


class Subscriber(Protocol):
    def offer(self, text: str) -> None:
        """Queue a text to send; never waits."""

    def cut(self) -> None:
        """End the connection, because a notification was missed."""


@dataclass(slots=True)
class Subscribed:
    """A topic with its id and its subscribers."""

    identifier: int
    topic: Topic
    subscribers: list[Subscriber] = field(default_factory=list)


class Registry:
    def __init__(self, subscriptions_max: int = SUBSCRIPTIONS_MAX) -> None:
        self._max = subscriptions_max
        self._next_id = 0
        self._by_topic: dict[Topic, Subscribed] = {}
        self._by_id: dict[int, Subscribed] = {}
        self._by_route: dict[Hashable, tuple[Topic, ...]] = {}
        self._ids_of: dict[Subscriber, set[int]] = {}
        self._count: Counter[tuple[type, Commitment | None]] = Counter()

    def add(self, topic: Topic, subscriber: Subscriber) -> int | None:
        """Subscribe and return the id; None if the number of topics is at its limit."""
        entry = self._by_topic.get(topic)
        if entry is None:
            if len(self._by_topic) >= self._max:
                return None
            entry = self._new(topic)
        ids = self._ids_of.setdefault(subscriber, set())
        if entry.identifier not in ids:
            ids.add(entry.identifier)
            entry.subscribers.append(subscriber)
        return entry.identifier

    def _new(self, topic: Topic) -> Subscribed:
        entry = Subscribed(self._next_id, topic)
        self._next_id += 1
        self._by_topic[topic] = self._by_id[entry.identifier] = entry
        self._by_route[topic.route] = (*self._by_route.get(topic.route, ()), topic)
        self._count[type(topic), topic.level] += 1
        return entry

    def remove(self, identifier: int, subscriber: Subscriber) -> bool:
        """End a subscription; False if the subscriber does not have it."""
        ids = self._ids_of.get(subscriber)
        if ids is None or identifier not in ids:
            return False
        ids.remove(identifier)
        if not ids:
            del self._ids_of[subscriber]
        entry = self._by_id[identifier]
        entry.subscribers.remove(subscriber)
        if not entry.subscribers:
            self._forget(entry)
        return True

    def remove_all(self, subscriber: Subscriber) -> None:
        """End all subscriptions of a subscriber; a second call changes nothing."""
        for identifier in tuple(self._ids_of.get(subscriber, ())):
            self.remove(identifier, subscriber)

    def finish(self, topic: Topic) -> None:
        """End all subscriptions of a topic that will have no more notifications."""
        entry = self._by_topic.get(topic)
        if entry is not None:
            for subscriber in tuple(entry.subscribers):
                self.remove(entry.identifier, subscriber)

    def _forget(self, entry: Subscribed) -> None:
        topic = entry.topic
        del self._by_topic[topic], self._by_id[entry.identifier]
        left = tuple(other for other in self._by_route[topic.route] if other != topic)
        if left:
            self._by_route[topic.route] = left
        else:
            del self._by_route[topic.route]
        self._count[type(topic), topic.level] -= 1

    def entry(self, topic: Topic) -> Subscribed | None:
        return self._by_topic.get(topic)

    def at(self, route: Hashable) -> tuple[Topic, ...]:
        """Subscribed topics of the route."""
        return self._by_route.get(route, ())

    def listens(self, *kinds: type, levels: Iterable[Commitment | None] = (None, *Commitment)) -> bool:
        """Whether a topic of these types and levels has a subscriber."""
        return any(self._count[kind, level] for kind in kinds for level in levels)

    def by_method(self) -> dict[str, int]:
        """The number of subscriptions for each subscribe method; two connections with equal topics have two."""
        counts: Counter[str] = Counter()
        for topic, entry in self._by_topic.items():
            counts[topic.notification.replace("Notification", "Subscribe")] += len(entry.subscribers)
        return dict(counts)

    def subscribers(self) -> tuple[Subscriber, ...]:
        return tuple(self._ids_of)
