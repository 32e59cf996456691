"""The WebSocket door: an ASGI application with one session of JSON-RPC methods for each connection.

Implements: as on a node, any path is accepted and no subprotocol is selected. Requests may be text or binary messages;
replies are text. uvicorn does the framing and refuses messages above MESSAGE_BYTES_MAX. The methods are Agave's
subscribe and unsubscribe methods and getVersion, in single calls and batches. As on a node, any unsubscribe method ends
any subscription of the connection.
Not here: notifications (hub.py), JSON-RPC itself (rpc/dispatch.py).
"""

import asyncio
from collections.abc import Callable
from typing import Any

from devnode.pubsub import topics
from devnode.pubsub.connection import QUEUE_CHARACTERS_MAX, QUEUE_MESSAGES_MAX, Connection
from devnode.pubsub.hub import PubsubHub
from devnode.pubsub.topics import SignatureTopic, Topic
from devnode.rpc import params as read
from devnode.rpc.asgi import Receive, Scope, Send
from devnode.rpc.cluster import get_version
from devnode.rpc.dispatch import Dispatcher, Handler, Method
from devnode.rpc.node import Node
from devnode.rpc.params import Params

Read = Callable[[Node, Params], Topic]

# (Name, reader of its parameters, least and most number of parameters).
SUBSCRIBE: tuple[tuple[str, Read, int, int], ...] = (
    ("accountSubscribe", topics.account_topic, 1, 2),
    ("blockSubscribe", topics.block_topic, 1, 2),
    ("logsSubscribe", topics.logs_topic, 1, 2),
    ("programSubscribe", topics.program_topic, 1, 2),
    ("rootSubscribe", lambda *_: topics.RootTopic(), 0, 0),
    ("signatureSubscribe", topics.signature_topic, 1, 2),
    ("slotSubscribe", lambda *_: topics.SlotTopic(), 0, 0),
    ("slotsUpdatesSubscribe", lambda *_: topics.SlotsUpdatesTopic(), 0, 0),
    ("voteSubscribe", lambda *_: topics.VoteTopic(), 0, 0),
)
UNSUBSCRIBE = tuple(name.replace("Subscribe", "Unsubscribe") for name, *_ in SUBSCRIBE)
MESSAGE_BYTES_MAX = 4_096  # Agave's limit for messages and frames.
# Options for uvicorn. Pings keep the connection open through proxies. A missing pong does not end the connection: a
# real node sends no pings, and a client that is stopped in a debugger should keep its subscriptions.
SERVER_OPTIONS: dict[str, Any] = {
    "ws": "websockets-sansio",
    "ws_max_size": MESSAGE_BYTES_MAX,
    "ws_per_message_deflate": False,
    "ws_ping_interval": 20.0,
    "ws_ping_timeout": None,
}


class Session:
    """The methods, bound to one connection."""

    def __init__(self, node: Node, hub: PubsubHub, connection: Connection) -> None:
        self._hub, self._connection = hub, connection
        self._unsettled: list[SignatureTopic] = []
        table = {name: Method(self._subscribing(reader), least, most) for name, reader, least, most in SUBSCRIBE}
        table |= {name: Method(self._unsubscribe, 1, 1) for name in UNSUBSCRIBE}
        table["getVersion"] = Method(get_version, 0, 0)
        self._dispatcher = Dispatcher(node, table)

    def receive(self, request: bytes) -> None:
        """Answer one message. The reply to a subscription comes before its first notification."""
        reply = self._dispatcher.answer(request)
        if reply is not None:
            self._connection.offer(reply.decode())
        unsettled, self._unsettled = self._unsettled, []
        for topic in unsettled:
            self._hub.settle(topic)

    def _subscribing(self, reader: Read) -> Handler:
        def subscribe(node: Node, params: Params) -> Any:
            topic = reader(node, params)
            identifier = self._hub.subscribe(topic, self._connection)
            if isinstance(topic, SignatureTopic):
                self._unsettled.append(topic)
            return identifier

        return subscribe

    def _unsubscribe(self, node: Node, params: Params) -> Any:
        self._hub.unsubscribe(read.unsigned(read.at(params, 0)), self._connection)
        return True


class PubsubDoor:
    def __init__(
        self,
        node: Node,
        hub: PubsubHub,
        queue_messages_max: int = QUEUE_MESSAGES_MAX,
        queue_characters_max: int = QUEUE_CHARACTERS_MAX,
    ) -> None:
        self._node, self._hub = node, hub
        self._queue_max = (queue_messages_max, queue_characters_max)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection until the client leaves or is cut off."""
        await receive()  # The first message is always websocket.connect.
        await send({"type": "websocket.accept"})
        connection = Connection(*self._queue_max)
        self._hub.join(connection)
        tasks = [
            asyncio.create_task(_receive_all(Session(self._node, self._hub, connection), receive)),
            asyncio.create_task(_send_all(connection, send)),
            asyncio.create_task(connection.ended()),
        ]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._hub.leave(connection)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        for task in done:
            task.result()


async def _receive_all(session: Session, receive: Receive) -> None:
    while (message := await receive())["type"] == "websocket.receive":
        text = message.get("text")
        session.receive(text.encode() if text is not None else message["bytes"])


async def _send_all(connection: Connection, send: Send) -> None:
    try:
        while True:
            await send({"type": "websocket.send", "text": await connection.next()})
    except OSError:
        return  # The client has left; ASGI servers then raise OSError.
