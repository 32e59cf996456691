"""A node's WebSocket that does what a test says, and counts what it was asked."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Iterator
from typing import Any

import orjson
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed

SLOTS = "slotSubscribe"


class FakeNode:
    """Equal subscriptions have one number for all connections, as on a node."""

    def __init__(self, slot: int = 100) -> None:
        self.slot = slot
        self.asked: list[tuple[str, Any]] = []  # Without the hub's own watch of slots.
        self.refuses: dict[str, dict[str, Any]] = {}  # Error objects, by method.
        self._numbers = itertools.count(1)
        self._topics: dict[bytes, int] = {}
        self._open: dict[ServerConnection, dict[int, str]] = {}
        self._changed = asyncio.Condition()
        self._server: Server | None = None
        self.port = 0

    async def start(self, port: int = 0) -> None:
        self._server = await serve(self._serve, "127.0.0.1", port or self.port)
        self.port = next(iter(self._server.sockets)).getsockname()[1]

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}"

    def cut(self) -> None:
        """End every connection, as a crash does."""
        for connection in list(self._open):
            connection.transport.abort()

    def open_count(self, method: str) -> int:
        return sum(name == method for topics in self._open.values() for name in topics.values())

    async def until(self, method: str, count: int) -> None:
        """Wait until so many subscriptions of this method are open."""
        async with asyncio.timeout(10), self._changed:
            await self._changed.wait_for(lambda: self.open_count(method) == count)

    async def notify(self, method: str, result: Any, params: Any = None) -> None:
        """To every subscriber of this method, or of it with these parameters."""
        if isinstance(result, dict):
            self.slot = max(self.slot, result.get("context", {}).get("slot", 0), result.get("slot", 0))
        name = f"{method.removesuffix('Subscribe')}Notification"
        for connection, topics in list(self._open.items()):
            for number in self._of(topics, method, params):
                body = {"jsonrpc": "2.0", "method": name, "params": {"result": result, "subscription": number}}
                await connection.send(orjson.dumps(body).decode())

    def _of(self, topics: dict[int, str], method: str, params: Any) -> Iterator[int]:
        wanted = None if params is None else self._topics.get(_key(method, params))
        return (number for number, name in topics.items() if name == method and wanted in (None, number))

    async def new_slot(self, slot: int) -> None:
        await self.notify(SLOTS, {"slot": slot, "parent": slot - 1, "root": max(0, slot - 32)})

    async def _serve(self, connection: ServerConnection) -> None:
        topics = self._open[connection] = {}
        try:
            async for text in _texts(connection):
                call = orjson.loads(text)
                await connection.send(orjson.dumps({"jsonrpc": "2.0", "id": call["id"]} | self._answer(call, topics)))
                async with self._changed:
                    self._changed.notify_all()
                if call["method"] == SLOTS:
                    await self.new_slot(self.slot)
        finally:
            del self._open[connection]
            async with self._changed:
                self._changed.notify_all()

    def _answer(self, call: dict[str, Any], topics: dict[int, str]) -> dict[str, Any]:
        method, params = call["method"], call["params"]
        if method in self.refuses:
            return {"error": self.refuses[method]}
        if method.endswith("Unsubscribe"):
            return {"result": topics.pop(params[0], None) is not None}
        if method != SLOTS or SLOTS in topics.values():
            self.asked.append((method, params))
        number = self._topics.setdefault(_key(method, params), next(self._numbers))
        topics[number] = method
        return {"result": number}


async def _texts(connection: ServerConnection) -> AsyncIterator[str | bytes]:
    with contextlib.suppress(ConnectionClosed):
        async for text in connection:
            yield text


def _key(method: str, params: Any) -> bytes:
    return orjson.dumps([method, params], option=orjson.OPT_SORT_KEYS)
