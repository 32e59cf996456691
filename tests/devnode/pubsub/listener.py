"""A client without a socket: it calls a session and reads the texts that are queued for it."""

from typing import Any

import orjson
from solders.rpc.responses import parse_websocket_message

from devnode.pubsub.connection import Connection
from devnode.pubsub.door import Session
from devnode.pubsub.hub import PubsubHub
from tests.devnode.local_node import LocalNode


class Listener:
    def __init__(self, local: LocalNode, hub: PubsubHub) -> None:
        self.hub, self.connection = hub, Connection()
        self._session = Session(local.node, hub, self.connection)

    def send(self, request: Any) -> None:
        self._session.receive(request if isinstance(request, bytes) else orjson.dumps(request))

    def ask(self, method: str, *params: Any) -> dict[str, Any]:
        """Call a method and return its reply, which comes before its notifications; those stay queued."""
        self.hub.pump()
        waiting = self.queued()
        self.send({"jsonrpc": "2.0", "id": 7, "method": method, "params": params})
        reply, *received = self.queued()
        for text in waiting + received:
            self.connection.offer(text)
        return orjson.loads(reply)

    def subscribe(self, method: str, *params: Any) -> int:
        return self.ask(method, *params)["result"]

    def error(self, method: str, *params: Any) -> tuple[int, str]:
        error = self.ask(method, *params)["error"]
        return error["code"], error["message"]

    def queued(self) -> list[str]:
        """Take all queued texts."""
        texts = []
        while self.connection._queue:
            texts.append(self.connection._queue.popleft())
        self.connection._characters = 0
        return texts

    def notifications(self) -> list[dict[str, Any]]:
        """Take all notifications since the last call."""
        return [orjson.loads(text) for text in self.texts()]

    def texts(self) -> list[str]:
        self.hub.pump()
        return self.queued()

    def results(self, subscription: int | None = None) -> list[Any]:
        return [
            message["params"]["result"]
            for message in self.notifications()
            if subscription is None or message["params"]["subscription"] == subscription
        ]

    def values(self) -> list[tuple[int, Any]]:
        """Slot and value of each notification that has a context."""
        return [(result["context"]["slot"], result["value"]) for result in self.results()]

    def decoded(self) -> list[Any]:
        """Take all notifications, decoded by the library of an independent client."""
        return [parse_websocket_message(text)[0] for text in self.texts()]
