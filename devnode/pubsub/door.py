"""The WebSocket door: an ASGI application with one session for each connection.

Implements: as on a node, any path is accepted and no subprotocol is selected. Requests may be text or binary messages;
replies are text. uvicorn does the framing and refuses messages above MESSAGE_BYTES_MAX.
Not here: methods (session.py), notifications (hub.py).
"""

import asyncio
from typing import Any

from devnode.pubsub.connection import QUEUE_CHARACTERS_MAX, QUEUE_MESSAGES_MAX, Connection
from devnode.pubsub.hub import Hub
from devnode.pubsub.session import Session
from devnode.rpc.asgi import Receive, Scope, Send
from devnode.rpc.node import Node

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


class PubsubDoor:
    def __init__(
        self,
        node: Node,
        hub: Hub,
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
