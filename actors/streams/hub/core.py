"""The hub's state: which replica wants which topic, and the events that wait for each replica.

Implements: interface, "WebSocket /ws"; decisions, "gaps of native subscriptions". Pure.
Not here: nodes and links (hub/actor.py).
"""

from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from actors.streams.api import MORE, TopicEvent, TopicEvents
from actors.streams.hub.native import TopicKey

PIECE_BYTES = 4 << 20  # A longer payload is cut, because frames of the link have a limit.
BATCH_BYTES_MAX = 8 << 20
BATCH_EVENTS_MAX = 4_096
_EVENT_BYTES = 64  # Counted for each event beside its payload.


@dataclass(slots=True, eq=False)
class Topic:
    """members: (replica, handle) of everybody who wants it. node: index of the node that serves it; None: no node does.

    upstream_id: the node's number. last_digest: of the last value, for kinds whose value can be read again. from_slot:
    since when events may be missing; None: none are. held: events that wait until this is told.
    """

    key: TopicKey
    members: dict[tuple[bytes, int], None] = field(default_factory=dict)
    node: int | None = None
    upstream_id: int | None = None
    last_digest: bytes | None = None
    last_slot: int = 0
    from_slot: int | None = None
    held: list[bytes] | None = None


class Topics:
    """Finds topics by key, by member and by the node's number."""

    def __init__(self, topics_max: int) -> None:
        self._topics_max = topics_max
        self.by_key: dict[TopicKey, Topic] = {}
        self.by_member: dict[tuple[bytes, int], Topic] = {}
        self._by_upstream: dict[tuple[int, int], Topic] = {}
        self.load: Counter[int] = Counter()  # Topics that each node serves.

    def __len__(self) -> int:
        return len(self.by_key)

    def join(self, key: TopicKey, replica: bytes, handle: int) -> Topic | None:
        """Add a member, making the topic if needed. None: there are too many topics."""
        topic = self.by_key.get(key)
        if topic is None:
            if len(self.by_key) >= self._topics_max:
                return None
            topic = self.by_key[key] = Topic(key)
        topic.members[replica, handle] = None
        self.by_member[replica, handle] = topic
        return topic

    def leave(self, replica: bytes, handle: int) -> Topic | None:
        """Remove a member. Returns the topic if that was its last member; it is then forgotten, but still served by its
        node."""
        topic = self.by_member.pop((replica, handle), None)
        if topic is None:
            return None
        del topic.members[replica, handle]
        if topic.members:
            return None
        del self.by_key[topic.key]
        return topic

    def handles_of(self, replica: bytes) -> list[int]:
        return [handle for member, handle in self.by_member if member == replica]

    def serve(self, topic: Topic, node: int, upstream_id: int) -> None:
        topic.node, topic.upstream_id = node, upstream_id
        self._by_upstream[node, upstream_id] = topic
        self.load[node] += 1

    def unserve(self, topic: Topic) -> None:
        if topic.node is not None and topic.upstream_id is not None:
            del self._by_upstream[topic.node, topic.upstream_id]
            self.load[topic.node] -= 1
        topic.node = topic.upstream_id = None

    def served(self, node: int, upstream_id: int) -> Topic | None:
        return self._by_upstream.get((node, upstream_id))

    def of_node(self, node: int) -> list[Topic]:
        return [topic for (index, _), topic in self._by_upstream.items() if index == node]

    def drop(self, topic: Topic) -> None:
        """Forget a topic that has ended by itself, with all its members."""
        self.unserve(topic)
        for member in topic.members:
            self.by_member.pop(member, None)
        topic.members.clear()
        if self.by_key.get(topic.key) is topic:
            del self.by_key[topic.key]


class ReplicaQueue:
    """Events waiting for one replica. A batch is kept until the replica acknowledges it.

    When full: all waiting events are dropped, and the next batch says so (`overran`).
    """

    def __init__(self, session: int, bytes_max: int) -> None:
        self.session, self._bytes_max = session, bytes_max
        self._waiting: deque[TopicEvent] = deque()
        self._bytes = 0
        self._batch = 0
        self._sent: TopicEvents | None = None
        self._overran = False

    def add(self, handle: int, flags: int, payload: bytes) -> None:
        if self._bytes + len(payload) + _EVENT_BYTES > self._bytes_max:
            self._waiting.clear()
            self._bytes, self._overran = 0, True
            return
        for event in _pieces(handle, flags, payload):
            self._waiting.append(event)
            self._bytes += len(event.payload) + _EVENT_BYTES

    def acknowledge(self, session: int, batch: int) -> None:
        """The replica has this batch, so it need not be sent again."""
        if self._sent is not None and session == self.session and batch == self._sent.batch:
            self._sent = None

    @property
    def has_more(self) -> bool:
        return self._sent is not None or bool(self._waiting) or self._overran

    def take(self, slot: int, root: int) -> TopicEvents:
        """Return the batch to send: the unacknowledged one, or the next one; without events if none wait."""
        if self._sent is not None:
            return self._sent
        if not self._waiting and not self._overran:
            return TopicEvents(self.session, 0, slot, root, ())
        events: list[TopicEvent] = []
        size = 0
        while self._waiting and len(events) < BATCH_EVENTS_MAX and size < BATCH_BYTES_MAX:
            event = self._waiting.popleft()
            size += len(event.payload) + _EVENT_BYTES
            events.append(event)
        self._bytes -= size
        self._batch += 1
        self._sent = TopicEvents(self.session, self._batch, slot, root, events, self._overran)
        self._overran = False
        return self._sent


def _pieces(handle: int, flags: int, payload: bytes) -> Iterator[TopicEvent]:
    for start in range(0, len(payload) - PIECE_BYTES, PIECE_BYTES):
        yield TopicEvent(handle, flags | MORE, payload[start : start + PIECE_BYTES])
    last = (len(payload) - 1) // PIECE_BYTES * PIECE_BYTES if payload else 0
    yield TopicEvent(handle, flags, payload[last:])
