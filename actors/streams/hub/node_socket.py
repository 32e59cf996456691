"""One WebSocket connection to one node: it connects while it is wanted, subscribes, and passes notifications on.

Implements: interface, "WebSocket /ws". A shell. It also subscribes to slots for itself: so the newest slot is known
when the connection is lost, and a connection that says nothing is noticed. The URL may contain a key: only the kind of
a failure is logged. Not here: which topics there are (actor.py).
"""

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import msgspec
import websockets
from websockets.asyncio.client import ClientConnection, connect

logger = logging.getLogger(__name__)

_OPEN_SECONDS = 5.0
_REPLY_SECONDS = 10.0
_PAUSES = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0)
_NOTIFICATION_BYTES_MAX = 128 << 20


class _Numbered(msgspec.Struct):
    subscription: int
    result: msgspec.Raw


class _Said(msgspec.Struct):
    """A reply, or a notification."""

    id: int | None = None
    result: msgspec.Raw = msgspec.Raw()
    error: msgspec.Raw = msgspec.Raw()
    params: _Numbered | None = None


class _Slot(msgspec.Struct):
    slot: int
    root: int


_decode = msgspec.json.Decoder(_Said).decode
_decode_slot = msgspec.json.Decoder(_Slot).decode


class NodeLost(Exception):
    """The connection ended, or never existed, before the node answered."""


class SocketEvents(Protocol):
    """Called by the sockets of all nodes. index: of the node."""

    def connected(self, index: int) -> None: ...

    def lost(self, index: int, slot: int, root: int) -> None:
        """The connection ended; the newest slot and root that it told."""

    def notified(self, index: int, upstream_id: int, result: bytes) -> None: ...


class NodeSocket:
    def __init__(
        self,
        index: int,
        name: str,
        url: str,
        events: SocketEvents,
        silent_seconds_max: float,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.index, self.name, self._url, self._events = index, name, url, events
        self._silent_seconds_max, self._sleep = silent_seconds_max, sleep
        self.slot = self.root = 0  # Newest slot and root on this connection.
        self._socket: ClientConnection | None = None
        self._ids = itertools.count(1)
        self._waiting: dict[int, tuple[asyncio.Future[bytes], Callable[[int], None] | None]] = {}
        self._slots_id: int | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def is_up(self) -> bool:
        return self._slots_id is not None

    def start(self) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._keep_connected())

    async def stop(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def subscribe(self, method: str, params: bytes, accept: Callable[[int], None]) -> bytes:
        """Subscribe. Returns the node's error object, or nothing. Raises NodeLost.

        accept: called with the node's number before any notification of it is read.
        """
        return await self._ask(method, params, accept)

    def unsubscribe(self, method: str, upstream_id: int) -> None:
        """Sends unsubscribe without waiting; not needed after a reconnect."""
        if upstream_id != self._slots_id and self.is_up:
            unsubscribe = f"{method.removesuffix('Subscribe')}Unsubscribe"
            task = asyncio.ensure_future(self._ask(unsubscribe, b"[%d]" % upstream_id, None))
            task.add_done_callback(lambda done: done.cancelled() or done.exception())

    async def _ask(self, method: str, params: bytes, accept: Callable[[int], None] | None) -> bytes:
        socket = self._socket
        if socket is None:
            raise NodeLost
        number = next(self._ids)
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future, accept
        text = b'{"jsonrpc":"2.0","id":%d,"method":"%b","params":%b}' % (number, method.encode(), params)
        try:
            async with asyncio.timeout(_REPLY_SECONDS):
                await socket.send(text, text=True)
                return await future
        except (TimeoutError, OSError, websockets.WebSocketException) as error:
            raise NodeLost(type(error).__name__) from None
        finally:
            self._waiting.pop(number, None)

    async def _keep_connected(self) -> None:
        attempt = 0
        while True:
            try:
                await self._serve_once()
                attempt = 0
            except (OSError, TimeoutError, NodeLost, websockets.WebSocketException) as error:
                logger.info("stream of node %s: %s", self.name, type(error).__name__)
            except (msgspec.DecodeError, ValueError):
                logger.warning("stream of node %s: it said what is no JSON-RPC", self.name)
            finally:
                was_up, self._slots_id, self._socket = self.is_up, None, None
                for future, _ in self._waiting.values():
                    if not future.done():
                        future.set_exception(NodeLost("the connection ended"))
                if was_up:
                    attempt = 0
                    self._events.lost(self.index, self.slot, self.root)
            await self._sleep(_PAUSES[min(attempt, len(_PAUSES) - 1)])
            attempt += 1

    async def _serve_once(self) -> None:
        """Connect, and read until the connection ends or says nothing for too long."""
        async with connect(
            self._url, max_size=_NOTIFICATION_BYTES_MAX, open_timeout=_OPEN_SECONDS, compression=None, close_timeout=1
        ) as socket:
            self._socket = socket
            watch = asyncio.create_task(self._watch_slots())
            try:
                while True:
                    async with asyncio.timeout(self._silent_seconds_max):
                        text = await socket.recv(decode=False)
                    self._take(text)
            finally:
                watch.cancel()

    async def _watch_slots(self) -> None:
        try:
            error = await self._ask("slotSubscribe", b"[]", self._watched)
        except NodeLost:
            error = b"no answer"
        if error and self._socket is not None:
            logger.warning("stream of node %s: it does not tell its slots", self.name)
            await self._socket.close()

    def _watched(self, upstream_id: int) -> None:
        self._slots_id = upstream_id
        self._events.connected(self.index)

    def _take(self, text: Any) -> None:
        said = _decode(text)
        if said.params is not None:
            upstream_id, result = said.params.subscription, bytes(said.params.result)
            if upstream_id == self._slots_id:
                told = _decode_slot(result)
                self.slot, self.root = max(self.slot, told.slot), max(self.root, told.root)
            self._events.notified(self.index, upstream_id, result)
            return
        future, accept = self._waiting.get(said.id or 0, (None, None))
        if future is None or future.done():
            return
        error = bytes(said.error)
        if not error and accept is not None:
            accept(msgspec.json.decode(said.result, type=int))
        future.set_result(error)
