"""The hub: one subscription at the nodes for each topic, shared by all subscribers; sends its events to the replicas.

Implements: design, "Growth" (identical stream subscriptions share one upstream subscription); interface, "WebSocket
/ws". A shell: core.py has the state, node_socket.py the connections, fills.py what can be asked after a loss.

A topic whose node is lost is subscribed to at another node at once. Then the hub reads missed events from the chain
where possible, and reports the rest as a gap: from the newest slot that the lost connection had told (from its root,
for events that come later than their slot) to the newest one once the topic is served again.
Nodes are connected while there are topics, and IDLE_SECONDS longer. Topics are spread over the nodes of weight above 0
that are connected; the others take over when none of those is.

When full: streams.topics_max topics, beyond which a subscription is refused; streams.hub_waiting_bytes_max of events
for each replica (core.py). A replica whose link has gone for too long is forgotten, with its topics.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from actors.background import Background
from actors.stream_config import StreamsConfig
from actors.streams.api import ENDS, GAP, CloseTopic, OpenTopic, PollEvents, TopicEvents, TopicReply
from actors.streams.hub.core import ReplicaQueue, Topic, Topics
from actors.streams.hub.fills import Fill, digest, fill, newest_slot
from actors.streams.hub.native import TopicKey
from actors.streams.hub.node_socket import NodeLost, NodeSocket
from actors.upstream.replies import Node

logger = logging.getLogger(__name__)

_POLL_SECONDS = 10.0
_CONNECT_SECONDS = 4.0  # How long a new subscription waits for a node.
_AGAIN_SECONDS = 1.0
_SLICE_TOPICS = 50  # Topics in one turn; beginning one takes about 30 us.
_SUBSCRIBING_MAX = 64  # Concurrent subscribe requests to the nodes; others wait here.
IDLE_SECONDS = 30.0
_LOST = "the connection to the node was lost"
_NO_NODE = orjson.dumps({"code": -32003, "message": "backend unavailable: no node takes subscriptions at the moment"})
_FULL = orjson.dumps({"code": -32003, "message": "service temporarily unavailable: too many different subscriptions"})


@dataclass(frozen=True, slots=True)
class StreamUrl:
    """A node's name and WebSocket URL, which may contain a key. is_spare: for when no other node is connected."""

    name: str
    url: str = field(repr=False)
    is_spare: bool = False


class StreamHub:
    """Belongs to one event loop. first_session: random, so that a replica notices another hub."""

    def __init__(
        self,
        config: StreamsConfig,
        nodes: Sequence[StreamUrl],
        node: Node,
        first_session: int,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """node: for reads after a loss."""
        self._config, self._node, self._sleep = config, node, sleep
        self._sockets = [
            NodeSocket(index, one.name, one.url, self, config.silent_seconds_max) for index, one in enumerate(nodes)
        ]
        self._spares = {index for index, one in enumerate(nodes) if one.is_spare}
        self._urls = dict(enumerate(nodes))  # Sockets in use; the others were left.
        self._free: list[int] = []  # Indexes of sockets that were left and have ended.
        self._idle: asyncio.TimerHandle | None = None
        self.topics = Topics(config.topics_max)
        self._queues: dict[bytes, ReplicaQueue] = {}
        self._polls: dict[bytes, asyncio.Future[None]] = {}
        self._opening: dict[TopicKey, asyncio.Task[bytes]] = {}
        self._next_session = first_session
        self._up = asyncio.Event()
        self._subscribing = asyncio.Semaphore(_SUBSCRIBING_MAX)
        self._background = Background(logger, "the stream hub failed at a topic")

    async def stop(self) -> None:
        await self._background.stop()
        for socket in self._sockets:
            await socket.stop()

    def health(self) -> dict[str, Any]:
        return {"topics": len(self.topics), "up": [socket.name for socket in self._sockets if socket.is_up]}

    @property
    def replicas(self) -> int:
        return len(self._queues)

    @property
    def slot(self) -> int:
        return max((socket.slot for socket in self._sockets), default=0)

    @property
    def root(self) -> int:
        return max((socket.root for socket in self._sockets), default=0)

    def use(self, nodes: Sequence[StreamUrl]) -> None:
        """Use these nodes from now on. Topics of a node that left move to the others, as after its loss."""
        places = {(one.name, one.url): index for index, one in self._urls.items()}
        wanted = {(one.name, one.url): one for one in nodes}
        for key, index in places.items():
            if key not in wanted:
                del self._urls[index]
                self._background.start(self._end(index))
        for key, one in wanted.items():
            self._urls[places[key] if key in places else self._add(one)] = one
        self._spares = {index for index, one in self._urls.items() if one.is_spare}
        if self.topics.by_key:
            self._connect()

    def _add(self, one: StreamUrl) -> int:
        index = self._free.pop() if self._free else len(self._sockets)
        socket = NodeSocket(index, one.name, one.url, self, self._config.silent_seconds_max)
        self._sockets[index : index + 1] = [socket]
        return index

    async def _end(self, index: int) -> None:
        await self._sockets[index].stop()
        self._free.append(index)

    # --- replicas ---------------------------------------------------------------------------------------------------

    def change(self, request: OpenTopic | CloseTopic) -> TopicReply | Awaitable[TopicReply]:
        session = self._queue(request.replica).session
        if isinstance(request, CloseTopic):
            self._leave(request.replica, request.handle)
            return TopicReply(session)
        return self._open(request, session)

    async def poll(self, request: PollEvents) -> TopicEvents:
        """Answer when there are events, or after a while without."""
        queue = self._queue(request.replica)
        queue.acknowledge(request.session, request.acked)
        if request.session == queue.session and not queue.has_more:
            await self._until_events(request.replica)
        return self._queue(request.replica).take(self.slot, self.root)

    def gone(self, replica: bytes) -> None:
        """Forget a replica that has had no link for too long."""
        for handle in self.topics.handles_of(replica):
            self._leave(replica, handle)
        self._queues.pop(replica, None)
        self._wake(replica)

    def _queue(self, replica: bytes) -> ReplicaQueue:
        queue = self._queues.get(replica)
        if queue is None:
            self._next_session += 1
            queue = self._queues[replica] = ReplicaQueue(self._next_session, self._config.hub_waiting_bytes_max)
        return queue

    async def _until_events(self, replica: bytes) -> None:
        self._wake(replica)  # An earlier poll, whose link is broken.
        self._polls[replica] = waiting = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(_POLL_SECONDS):
                await waiting
        except TimeoutError:
            pass
        finally:
            if self._polls.get(replica) is waiting:
                del self._polls[replica]

    def _wake(self, replica: bytes) -> None:
        waiting = self._polls.pop(replica, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(None)

    # --- topics -----------------------------------------------------------------------------------------------------

    async def _open(self, request: OpenTopic, session: int) -> TopicReply:
        key, member = TopicKey(request.method, request.params), (request.replica, request.handle)
        is_new = key not in self.topics.by_key
        topic = self.topics.join(key, *member)
        if topic is None:
            return TopicReply(session, _FULL)
        if is_new:
            self._connect()
            topic.from_slot = request.from_slot
            self._opening[key] = self._background.start(self._serve_new(topic))
        opening = self._opening.get(key)
        error = b"" if opening is None else await asyncio.shield(opening)
        if not error and request.from_slot is not None and not is_new:
            # Another replica kept the topic alive, and this one has heard nothing of it for a while.
            slot = max(self.slot, await newest_slot(self._node))
            self._tell_gap(topic, request.from_slot, slot, "the hub was restarted", only=member)
        return TopicReply(session, error)

    async def _serve_new(self, topic: Topic) -> bytes:
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                while True:
                    try:
                        error = await self._serve(topic)
                        break
                    except NodeLost:
                        await self._sleep(0.05)
        except TimeoutError:
            error = _NO_NODE
        finally:
            self._opening.pop(topic.key, None)
        if error:
            self._drop(topic)
        if not error and topic.from_slot is not None:
            await self._repair(topic)
        return error

    async def _serve(self, topic: Topic) -> bytes:
        """Subscribe at a node. Returns the node's error object, or nothing. Raises NodeLost."""
        await self._up.wait()
        up = [self._sockets[index] for index in self._urls if self._sockets[index].is_up]
        if not up:
            raise NodeLost
        socket = min(up, key=lambda one: (one.index in self._spares, self.topics.load[one.index]))

        def accept(upstream_id: int) -> None:
            if topic.members:
                self.topics.serve(topic, socket.index, upstream_id)
                topic.held = None if topic.from_slot is None else []
            else:  # All members have left in the meantime.
                socket.unsubscribe(topic.key.method, upstream_id)

        async with self._subscribing:
            return await socket.subscribe(topic.key.method, topic.key.params, accept)

    def _leave(self, replica: bytes, handle: int) -> None:
        topic = self.topics.leave(replica, handle)
        if topic is None:
            return
        if topic.node is not None and topic.upstream_id is not None:
            self._sockets[topic.node].unsubscribe(topic.key.method, topic.upstream_id)
        self.topics.unserve(topic)
        self._look_whether_idle()

    def _drop(self, topic: Topic) -> None:
        self.topics.drop(topic)
        self._look_whether_idle()

    def _look_whether_idle(self) -> None:
        if not self.topics.by_key and self._idle is None:
            self._idle = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._disconnect)

    def _disconnect(self) -> None:
        self._idle = None
        if not self.topics.by_key:
            for socket in self._sockets:
                self._background.start(socket.stop())

    def _connect(self) -> None:
        for index in self._urls:
            self._sockets[index].start()

    # --- told by the sockets ----------------------------------------------------------------------------------------

    def connected(self, index: int) -> None:
        logger.info("stream of node %s is up", self._sockets[index].name)
        self._up.set()

    def lost(self, index: int, slot: int, root: int) -> None:
        if not any(socket.is_up for socket in self._sockets):
            self._up.clear()
        topics = self.topics.of_node(index)
        for topic in topics:
            self.topics.unserve(topic)
            if topic.from_slot is None:
                topic.from_slot = root if topic.key.follows_root else slot
        self._background.start(self._serve_all_again(topics))

    async def _serve_all_again(self, topics: Sequence[Topic]) -> None:
        """Begin in slices: a lost node may have served 100,000 topics."""
        for number, topic in enumerate(topics, 1):
            self._background.start(self._serve_again(topic))
            if not number % _SLICE_TOPICS:
                await asyncio.sleep(0)

    def notified(self, index: int, upstream_id: int, result: bytes) -> None:
        topic = self.topics.served(index, upstream_id)
        if topic is None:
            return
        if topic.held is not None:
            topic.held.append(result)
        else:
            self._deliver(topic, result)

    def _deliver(self, topic: Topic, result: bytes) -> None:
        ends = topic.key.ends and _is_last(result)
        if topic.key.method == "accountSubscribe":
            value = orjson.loads(result)
            topic.last_digest, topic.last_slot = digest(value), value["context"]["slot"]
        self._send(topic, ENDS if ends else 0, result)
        if ends:
            self._drop(topic)

    # --- after a loss -----------------------------------------------------------------------------------------------

    async def _serve_again(self, topic: Topic) -> None:
        """Retry until a node serves it again, or nobody wants it any more."""
        while topic.members:
            try:
                error = await self._serve(topic)
            except NodeLost:
                error = _NO_NODE
            if not error:
                await self._repair(topic)
                return
            await self._sleep(_AGAIN_SECONDS)

    async def _repair(self, topic: Topic) -> None:
        """Deliver what can be read of the time without a node, report the rest as a gap, then send held events."""
        try:
            found = await fill(topic.key, topic.last_digest, topic.last_slot, self._node)
            # Read after the topic is served again: slots that the connections reported may be from before the loss.
            slot = max(self.slot, await newest_slot(self._node)) if found.has_gap else 0
        except (KeyError, TypeError, ValueError):
            logger.exception("a fill of %s failed", topic.key.method)
            found, slot = Fill(), self.slot
        from_slot, topic.from_slot = topic.from_slot or 0, None
        held, topic.held = topic.held or [], None
        if found.has_gap:
            self._tell_gap(topic, from_slot, slot, _LOST)
        # Held events are newer than what was read; for a signature they are the same.
        if found.result is not None and not held:
            held = [found.result]
            if topic.key.ends and topic.node is not None and topic.upstream_id is not None:
                self._sockets[topic.node].unsubscribe(topic.key.method, topic.upstream_id)
        for result in held:
            if topic.members:
                self._deliver(topic, result)

    def _tell_gap(
        self, topic: Topic, from_slot: int, to_slot: int, reason: str, only: tuple[bytes, int] | None = None
    ) -> None:
        gap = orjson.dumps({"from_slot": from_slot, "to_slot": max(from_slot, to_slot), "reason": reason})
        self._send(topic, GAP, gap, only)

    # --- events -----------------------------------------------------------------------------------------------------

    def _send(self, topic: Topic, flags: int, payload: bytes, only: tuple[bytes, int] | None = None) -> None:
        for member in (only,) if only else topic.members:
            queue = self._queues.get(member[0])
            if queue is not None:
                queue.add(member[1], flags, payload)
                self._wake(member[0])


def _is_last(result: bytes) -> bool:
    """Return whether a signature's notification is its last: its value is then an object, before that a text."""
    return isinstance(orjson.loads(result).get("value"), dict)
