"""A replica's side of the stream hub: one topic for all its subscribers, and their events.

Implements: design, "Growth"; decisions, "gaps of native subscriptions". A shell. A notification is encoded once here,
up to the number of the subscription, however many clients get it.

When the hub is another one than before, it knows nothing of this replica: every topic is opened again from the newest
slot that is known here, and the hub fills or tells the gap. A replica may have 100,000 topics, so they are opened again
by REOPENINGS_MAX tasks, and each walk over all topics or events lets others have the loop (threat 62).
Not here: prices and clients (websocket/client_streams.py).
"""

import asyncio
import itertools
import logging
from collections import deque
from typing import Any, Protocol

import orjson

from actors.background import Background
from actors.hotlink.frames import MessageKind
from actors.hotlink.replica import LinkFull, LinkTimeout
from actors.metering.api import Sink, StreamEvent
from actors.streams.api import CHANGE, ENDS, GAP, MORE, POLL, CloseTopic, OpenTopic, PollEvents, TopicEvent, TopicEvents
from actors.streams.hub.native import TopicKey

logger = logging.getLogger(__name__)

NOTIFICATION_UNITS = 1  # The unit of a notification's price (prices.units_per_credit).
_CHANGE_MS, _POLL_MS = 15_000, 30_000
_AGAIN_SECONDS, _REOPEN_SECONDS = 0.2, 1.0
REOPENINGS_MAX = 32  # Topics reopened at the same time: their tasks together take 1 ms of one round of the event loop.
STEPS_AT_ONCE = 128  # Topics or subscribers in one round of the loop; a subscriber takes up to 10 us.
_AWAY = orjson.dumps({"code": -32003, "message": "service temporarily unavailable: subscriptions are not taken"})
_OVERRAN = "this replica took too few events"


class HubLink(Protocol):
    """The methods of a hot link that this module uses."""

    def call(self, kind: MessageKind, item: Any, wait_ms: int, new_work: bool = False) -> "asyncio.Future[Any]": ...


class _Topic:
    """A topic that a client of this replica wants.

    opened: gives the node's error object, or nothing. from_slot: where to reopen it, else None.
    """

    __slots__ = ("from_slot", "handle", "head", "key", "opened", "pieces", "sinks")

    def __init__(self, key: TopicKey, handle: int) -> None:
        self.key, self.handle = key, handle
        self.from_slot: int | None = None
        self.sinks: dict[object, Sink] = {}
        self.pieces: list[bytes] = []
        self.head = b'{"jsonrpc":"2.0","method":"%b","params":{"result":' % key.notification.encode()
        self.opened: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()


class FeedSubscription:
    """One subscriber of a topic. An OpenSubscription."""

    def __init__(self, feed: "TopicFeed", key: TopicKey) -> None:
        self._feed, self._key = feed, key

    def close(self) -> None:
        self._feed.unsubscribe(self._key, self)


class TopicFeed:
    """Belongs to one event loop. replica: this process's name on the link."""

    def __init__(self, link: HubLink, replica: bytes) -> None:
        self._link, self._replica = link, replica
        self._topics: dict[TopicKey, _Topic] = {}
        self._by_handle: dict[int, _Topic] = {}
        self._handles = itertools.count(1)
        self._session = self._acked = self._slot = self._root = 0
        self._reopen: deque[tuple[_Topic, int]] = deque()  # With the handle under which it is reopened.
        self._reopenings = 0  # Tasks that work on _reopen.
        self._background = Background(logger, "subscriptions at the stream hub failed")

    def start(self) -> None:
        self._background.start(self._poll_for_ever())

    async def stop(self) -> None:
        await self._background.stop()

    def __len__(self) -> int:
        return len(self._topics)

    async def subscribe(self, key: TopicKey, sink: Sink) -> FeedSubscription | bytes:
        """Subscribe. bytes: a JSON-RPC error object that says why not."""
        topic = self._topics.get(key)
        if topic is None:
            topic = self._topics[key] = self._new(key)
            self._background.start(self._open(topic))
        subscription = FeedSubscription(self, key)
        topic.sinks[subscription] = sink
        try:
            error = await asyncio.shield(topic.opened)
        except asyncio.CancelledError:
            subscription.close()
            raise
        return error or subscription

    def unsubscribe(self, key: TopicKey, subscription: FeedSubscription) -> None:
        topic = self._topics.get(key)
        if topic is None or topic.sinks.pop(subscription, None) is None or topic.sinks:
            return
        self._forget(topic)
        self._background.start(self._close(topic.handle))

    def _new(self, key: TopicKey) -> _Topic:
        topic = _Topic(key, next(self._handles))
        self._by_handle[topic.handle] = topic
        return topic

    def _forget(self, topic: _Topic) -> None:
        self._by_handle.pop(topic.handle, None)
        if self._topics.get(topic.key) is topic:
            del self._topics[topic.key]

    # --- the hub

    async def _open(self, topic: _Topic) -> None:
        error = await self._ask_to_open(topic, None)
        self._end_opening(topic, error)
        if error is _AWAY:
            self._background.start(self._close(topic.handle))  # The hub may have opened it all the same.

    async def _ask_to_open(self, topic: _Topic, from_slot: int | None) -> bytes:
        """Return the node's error object, or nothing."""
        wanted = OpenTopic(self._replica, topic.handle, topic.key.method, topic.key.params, from_slot)
        try:
            reply = await self._link.call(CHANGE, wanted, _CHANGE_MS, new_work=True)
        except (LinkFull, LinkTimeout):
            return _AWAY
        error: bytes = reply.error
        return error

    def _end_opening(self, topic: _Topic, error: bytes) -> None:
        if not topic.opened.done():
            if error:
                self._forget(topic)
            topic.opened.set_result(error)

    async def _close(self, handle: int) -> None:
        try:
            await self._link.call(CHANGE, CloseTopic(self._replica, handle), _CHANGE_MS)
        except LinkTimeout:
            logger.info("the hub did not take the end of a topic; it is told again with the next session")

    async def _poll_for_ever(self) -> None:
        while True:
            poll = PollEvents(self._replica, self._session, self._acked)
            try:
                batch: TopicEvents = await self._link.call(POLL, poll, _POLL_MS)
            except (LinkFull, LinkTimeout):
                await asyncio.sleep(_AGAIN_SECONDS)
                continue
            try:
                await self._take(batch)
            except Exception:  # A bug; the stream must go on.
                logger.exception("a batch of events could not be delivered")

    async def _take(self, batch: TopicEvents) -> None:
        slot, root = self._slot, self._root
        self._slot, self._root = max(slot, batch.slot), max(root, batch.root)
        if batch.session != self._session:
            is_first, self._session, self._acked = self._session == 0, batch.session, 0
            if not is_first:
                await self._open_all_again(slot, root)
        if batch.batch:
            self._acked = batch.batch
        steps = 0
        if batch.overran:
            for topic in list(self._by_handle.values()):
                steps += self._deliver_gap(topic, _gap(root if topic.key.follows_root else slot, self._slot, _OVERRAN))
                steps = await _pause_after(steps)
        for event in batch.events:
            steps = await _pause_after(steps + self._deliver(event))

    async def _open_all_again(self, slot: int, root: int) -> None:
        """Reopen every topic, because the hub has forgotten this replica. Subscribers keep their subscriptions."""
        steps = 0
        for topic in list(self._topics.values()):
            steps = await _pause_after(steps + 1)
            if not topic.opened.done() or self._topics.get(topic.key) is not topic:
                continue  # Its opening is on its way to this hub, or nobody wants it any more.
            self._by_handle.pop(topic.handle, None)
            topic.handle, topic.pieces = next(self._handles), []
            self._by_handle[topic.handle] = topic
            if topic.from_slot is None:  # Otherwise it has waited since an earlier restart without an event.
                topic.from_slot = root if topic.key.follows_root else slot
            self._reopen.append((topic, topic.handle))
        while self._reopenings < min(REOPENINGS_MAX, len(self._reopen)):
            self._reopenings += 1
            self._background.start(self._open_those_that_wait())

    async def _open_those_that_wait(self) -> None:
        """Reopen topics one after the other. Each is retried until it is open, nobody wants it, or the hub was replaced
        again."""
        try:
            while self._reopen:
                topic, handle = self._reopen.popleft()
                while self._by_handle.get(handle) is topic and topic.handle == handle:
                    if not await self._ask_to_open(topic, topic.from_slot):
                        if topic.handle == handle:
                            topic.from_slot = None
                        break
                    logger.info("a %s cannot be opened again for now", topic.key.method)
                    await asyncio.sleep(_REOPEN_SECONDS)
        finally:
            self._reopenings -= 1

    # --- events

    def _deliver(self, event: TopicEvent) -> int:
        """Give an event to the subscribers of its topic. Returns the number of steps taken."""
        topic = self._by_handle.get(event.handle)
        if topic is None:
            return 1
        payload = event.payload
        if event.flags & MORE:
            topic.pieces.append(payload)
            return 1
        if topic.pieces:
            payload, topic.pieces = b"".join((*topic.pieces, payload)), []
        if event.flags & GAP:
            return self._deliver_gap(topic, payload)
        ends = bool(event.flags & ENDS)
        if ends:
            self._forget(topic)
        return self._give(topic, StreamEvent(b'%b%b,"subscription":' % (topic.head, payload), NOTIFICATION_UNITS, ends))

    def _deliver_gap(self, topic: _Topic, gap: bytes) -> int:
        head = b'{"jsonrpc":"2.0","method":"gapNotification","params":{"result":%b,"subscription":' % gap
        return self._give(topic, StreamEvent(head, 0))

    def _give(self, topic: _Topic, event: StreamEvent) -> int:
        for sink in list(topic.sinks.values()):
            sink(event)
        return 1 + len(topic.sinks)


def _gap(from_slot: int, to_slot: int, reason: str) -> bytes:
    return orjson.dumps({"from_slot": from_slot, "to_slot": to_slot, "reason": reason})


async def _pause_after(steps: int) -> int:
    """Let other tasks run after STEPS_AT_ONCE. Returns the steps since the last pause."""
    if steps < STEPS_AT_ONCE:
        return steps
    await asyncio.sleep(0)
    return 0
