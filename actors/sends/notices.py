"""Notices of confirmed signatures over the node's WebSocket, so that a race need not wait for the next poll.

Implements: interface, "sendAndConfirm outcome" (confirmation as soon as it is there).
A notice only wakes the racer, which then asks the node. So a lost or false notice changes no outcome, and without a
socket the racer polls as often as it did without this module. All races share one socket.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import count
from typing import Any

import orjson
import websockets
from websockets.asyncio.client import ClientConnection, connect

from actors.background import Background
from actors.units import base58_text

logger = logging.getLogger(__name__)

_FRAME_BYTES_MAX = 1 << 20
_OPEN_SECONDS = 5.0
# Signatures with a subscription. A node limits those of one socket, and polls of 256 signatures at once cost less than
# so many subscriptions: while there are more races, the racer polls as if there were no socket.
FOLLOWED_MAX = 1_024
_SENT_AT_ONCE = 16  # Requests in one turn of the event loop, of 40 us each.
_PAUSES_SECONDS = (0.5, 1.0, 2.0, 5.0, 15.0)


@dataclass(slots=True)
class _Subscription:
    """number: as the node told it. ended: by its one notice, or because the node refused it."""

    number: int | None = None
    ended: bool = False


class SignatureNotices:
    """ws_url: None where no node has a WebSocket; then there are no notices.

    noticed: set by each notice and by the loss of the socket; the racer clears it.
    """

    def __init__(self, ws_url: str | None, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self._ws_url, self._sleep = ws_url, sleep
        self._background = Background(logger, "notices of signatures failed")
        self.noticed = asyncio.Event()
        self._changed = asyncio.Event()  # Set when the writer has something to do.
        self._wanted: set[bytes] = set()
        self._passed_over: set[bytes] = set()  # Races beyond FOLLOWED_MAX, without a subscription.
        self._connected = False
        self._moved = asyncio.Event()
        self._socket: ClientConnection | None = None
        self._numbers = count(1)
        self._sent = 0
        # Of the present socket. Numbers of requests and of subscriptions to signatures.
        self._requests: dict[int, bytes] = {}
        self._signatures: dict[int, bytes] = {}
        self._subscriptions: dict[bytes, _Subscription] = {}

    @property
    def complete(self) -> bool:
        """Return whether every race will get a notice, so that polls may be rare."""
        if not self._connected or self._passed_over or not self._wanted <= self._subscriptions.keys():
            return False
        return all(self._subscriptions[signature].number is not None for signature in self._wanted)

    def follow(self, signature: bytes) -> None:
        if len(self._wanted) >= FOLLOWED_MAX:
            self._passed_over.add(signature)
            return
        self._wanted.add(signature)
        self._changed.set()

    def drop(self, signature: bytes) -> None:
        self._passed_over.discard(signature)
        if signature in self._wanted:
            self._wanted.discard(signature)
            self._changed.set()

    def start(self) -> None:
        self._background.start(self._keep())

    def use(self, ws_url: str | None) -> None:
        """Listen to this node from now on. The races are followed there as after a loss of the socket."""
        if ws_url != self._ws_url:
            self._ws_url = ws_url
            self._moved.set()
            if self._socket is not None:
                self._background.start(self._socket.close())

    async def stop(self) -> None:
        await self._background.stop()

    async def _keep(self) -> None:
        attempt = 0
        while True:
            self._moved.clear()
            if self._ws_url is None:
                await self._moved.wait()
                continue
            try:
                async with connect(self._ws_url, max_size=_FRAME_BYTES_MAX, open_timeout=_OPEN_SECONDS) as socket:
                    if not self._moved.is_set():
                        attempt, self._connected, self._socket = 0, True, socket
                        await self._listen(socket)
            except (OSError, TimeoutError, websockets.WebSocketException) as error:
                # The URL may contain a key, so only the kind of failure is logged.
                logger.info("no notices of signatures: %s", type(error).__name__)
            except Exception:  # A bug must not end the notices for good.
                logger.exception("notices of signatures failed")
            finally:
                self._connected, self._socket = False, None
                self.noticed.set()  # From now on the racer polls, beginning at once.
            await self._sleep(_PAUSES_SECONDS[min(attempt, len(_PAUSES_SECONDS) - 1)])
            attempt += 1

    async def _listen(self, socket: ClientConnection) -> None:
        for of_last_socket in (self._requests, self._signatures, self._subscriptions):
            of_last_socket.clear()
        self._changed.set()
        writer = asyncio.create_task(self._write(socket))
        try:
            async for message in socket:
                self._hear(message)
        finally:
            writer.cancel()
            await asyncio.gather(writer, return_exceptions=True)

    async def _write(self, socket: ClientConnection) -> None:
        """Subscribe and unsubscribe, until the node's subscriptions are those that are wanted."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            for signature in self._wanted - self._subscriptions.keys():
                self._subscriptions[signature] = _Subscription()
                params = [base58_text(signature), {"commitment": "confirmed"}]
                self._requests[number := next(self._numbers)] = signature
                await self._send(socket, _request(number, "signatureSubscribe", params))
            for signature in self._subscriptions.keys() - self._wanted:
                old = self._subscriptions[signature]
                if old.number is None and not old.ended:
                    continue  # Its number comes later.
                del self._subscriptions[signature]
                if old.number is not None:
                    self._signatures.pop(old.number, None)
                    if not old.ended:
                        unsubscribe = _request(next(self._numbers), "signatureUnsubscribe", [old.number])
                        await self._send(socket, unsubscribe)

    async def _send(self, socket: ClientConnection, request: str) -> None:
        """Send a request, with turns for others: thousands of sends begin or end at once, and a socket that takes them
        all would block the event loop.
        """
        await socket.send(request)
        self._sent += 1
        if self._sent % _SENT_AT_ONCE == 0:
            await asyncio.sleep(0)

    def _hear(self, message: str | bytes) -> None:
        """Handle one message. Ignores malformed ones, because the poll will tell."""
        try:
            found: Any = orjson.loads(message)
            if found.get("method") == "signatureNotification":
                self._noticed(found["params"]["subscription"])
                return
            signature = self._requests.pop(found["id"], None)
            number = found.get("result")
        except (ValueError, KeyError, TypeError, AttributeError):
            return
        subscription = None if signature is None else self._subscriptions.get(signature)
        if signature is None or subscription is None:
            return
        if type(number) is int:
            subscription.number = number
            self._signatures[number] = signature
        else:
            subscription.ended = True  # Refused: polls stay frequent as long as this race runs.
        self._changed.set()

    def _noticed(self, number: int) -> None:
        signature = self._signatures.get(number)
        if signature is not None:
            self._subscriptions[signature].ended = True
        self.noticed.set()


def _request(number: int, method: str, params: list[Any]) -> str:
    return orjson.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).decode()
