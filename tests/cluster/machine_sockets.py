"""Clients of several machines over WebSockets: calls, and subscriptions to signals that go on from their cursor."""

import asyncio
import contextlib
import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidMessage, InvalidStatus

from tests.cluster.machine_clients import Calling
from tests.stream_checks.waiting import until_all
from tests.stream_checks.websocket_kills import ALLOWANCE_CREDITS, CONNECT_CREDITS, SignalClient

_OPEN_SECONDS, _SOCKETS = 5.0, 8
_RESTARTS, _UNAVAILABLE = 1012, -32003  # The close code; the error that stands for HTTP's 502 and 503.
# With pings: a machine that cannot be reached any more is noticed within seconds, and the socket opened elsewhere.
_OPTIONS: dict[str, Any] = {"compression": None, "open_timeout": 5.0, "close_timeout": 1.0, "ping_interval": 2.0}
_OPTIONS["ping_timeout"] = 5.0


class SocketEnded(Exception):
    """code: with which the socket was closed; None: there was none, and nothing was sent."""

    def __init__(self, code: int | None) -> None:
        super().__init__(f"closed {code}" if code else "no socket")
        self.code = code


class CallingSocket:
    """One socket with many calls under way; it is opened again when it ends."""

    def __init__(self, url: str, api_key: str) -> None:
        self._url, self._headers = url, {"X-Api-Key": api_key}
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._socket: ClientConnection | None = None
        self._ids, self._opened = itertools.count(1), asyncio.Event()

    @property
    def is_open(self) -> bool:
        return self._socket is not None

    async def run(self) -> None:
        while True:
            code = None
            with contextlib.suppress(OSError, InvalidMessage, InvalidStatus, TimeoutError):
                async with connect(self._url, additional_headers=self._headers, **_OPTIONS) as self._socket:
                    self._opened.set()
                    code = await self._read(self._socket)
            self._socket = None
            self._opened.clear()
            for waiting in self._waiting.values():
                if not waiting.done():
                    waiting.set_exception(SocketEnded(code or 1006))
            self._waiting.clear()
            await asyncio.sleep(random.uniform(0.2, 1))

    async def _read(self, socket: ClientConnection) -> int:
        """Hand out answers until the socket ends, and return the code."""
        try:
            while True:
                said = orjson.loads(await socket.recv())
                waiting = self._waiting.pop(said.get("id"), None)
                if waiting is not None and not waiting.done():
                    waiting.set_result(said)
        except ConnectionClosed as error:
            return 1006 if error.rcvd is None else error.rcvd.code

    async def call(self, method: str, answer_seconds: float) -> dict[str, Any]:
        """Wait for the socket, which is opened again within a second, and call. Raises SocketEnded, TimeoutError."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._opened.wait(), _OPEN_SECONDS)
        if self._socket is None:
            raise SocketEnded(None)
        number = next(self._ids)
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        # A socket that ends meanwhile is noticed by `run`, which ends every waiting call.
        with contextlib.suppress(ConnectionClosed):
            await self._socket.send(orjson.dumps({"jsonrpc": "2.0", "id": number, "method": method}).decode())
        async with asyncio.timeout(answer_seconds):
            return await answer


class SocketCallers(Calling):
    """Asks getSlot over a few sockets for each machine: one takes 200 messages in a second, and the calls of a machine
    that is lost come to the next one all at once."""

    def __init__(self, urls: Sequence[str], api_key: str, calls_per_second: float) -> None:
        super().__init__(len(urls), calls_per_second)
        self._sockets = [[CallingSocket(url, api_key) for _ in range(_SOCKETS)] for url in urls]

    async def _open(self, stack: contextlib.AsyncExitStack) -> None:
        sockets = list(itertools.chain.from_iterable(self._sockets))
        for socket in sockets:
            stack.callback(asyncio.create_task(socket.run()).cancel)
        await until_all(sockets, lambda one: one.is_open, "not all sockets could be opened")

    async def _ask(self, machine: int, number: int) -> str | None:
        try:
            sockets = self._sockets[machine]
            answer = await sockets[number // self._machines % _SOCKETS].call("getSlot", self.answer_seconds)
        except SocketEnded as ended:
            self.record.unknown += ended.code not in (None, _RESTARTS)
            return str(ended)
        except TimeoutError:
            self.record.unknown += 1
            return "timeout"
        if "result" in answer:
            self.record.answered += 1
            return None
        code = answer["error"]["code"]
        return f"{'' if code == _UNAVAILABLE else 'final '}{code}"


@dataclass(frozen=True)
class Key:
    api_key: str


@dataclass(eq=False)
class Subscriber(SignalClient):
    """Follows new coins, on another machine after each loss."""

    addresses: Iterator[str] = field(default_factory=lambda: iter(()))

    def _address(self) -> str:
        return next(self.addresses)


class Subscribers:
    """So many clients of one account, which follow new coins until `stop`."""

    def __init__(self, urls: Sequence[str], api_key: str, number: int, launched: dict[str, float]) -> None:
        self._launched = launched
        self.clients = [
            Subscriber("", Key(api_key), launched=launched, addresses=itertools.cycle([*urls[first:], *urls[:first]]))
            for first in (each % len(urls) for each in range(number))
        ]
        self._running: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        self._running = [asyncio.create_task(client.run()) for client in self.clients]
        await until_all(self.clients, lambda one: one.opened > 0, "not all subscriptions could be opened", self._check)

    def _check(self) -> None:
        for task in self._running:
            if task.done():
                task.result()  # A client never ends by itself.

    async def stop(self) -> None:
        """Wait until each client has every coin once and no other, and end them. Raises Stalled."""
        try:
            coins = sorted(self._launched)
            await until_all(self.clients, lambda one: sorted(one.mints) == coins, "not all have all coins", self._check)
        finally:
            for task in self._running:
                task.cancel()
            await asyncio.gather(*self._running, return_exceptions=True)

    @property
    def lost(self) -> int:
        return sum(client.lost for client in self.clients)

    @property
    def codes(self) -> list[int]:
        return [code for client in self.clients for code in client.codes]

    def charges(self) -> range:
        """Return what they may have been charged: exactly what was delivered, where no connection was lost; where all
        that were lost had been told so, that without what was replayed. A replica that is killed posts up to an
        allowance less; a subscription may be charged and lost with it; replays are free."""
        delivered = sum(client.delivered_tenths for client in self.clients) // 10
        free = sum(client.free_tenths for client in self.clients) // 10
        if not self.lost:
            return range(delivered, delivered + 1)
        if set(self.codes) == {_RESTARTS}:
            return range(delivered - free, delivered + 1)
        return range(delivered - free - ALLOWANCE_CREDITS, delivered + CONNECT_CREDITS * self.lost + 1)
