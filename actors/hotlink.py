"""The hot link: one long-lived connection from an edge to an owner, carrying everything that gathered as one frame.

Implements: design, section 2 (never one actor call per request; coalesced frames; at most two in flight of each
kind; the first frame proves a secret of the cluster; a broken link is re-made and what is unanswered is sent again).
Generic: knows kinds, sequence numbers and futures; no rule of any context may live here. Requests must therefore be
idempotent, each by its own operation id.

The edge's proof also names it (PEER_BYTES). When all connections of a peer have been gone for a while, `on_gone` is
told, once: that edge is dead, and whoever it worked for can be made whole.

Frames are WebSocket binary messages: one byte of kind, then MessagePack `[frame, [[sequence, item], ...]]`;
answers are MessagePack `[frame or 0, kind, [[sequence, reply], ...]]`, where frame acknowledges that frame.
"""

import asyncio
import hmac
import logging
import secrets
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed, WebSocketException

logger = logging.getLogger(__name__)

FRAMES_IN_FLIGHT_MAX = 2  # Of one kind: one being worked on, one on the wire; more only spreads the same work thinner.
FRAME_ITEMS_MAX = 1_024  # Keeps a frame well under FRAME_BYTES_MAX and an owner's turn short.
FRAME_BYTES_MAX = 16 << 20
UNANSWERED_MAX = 20_000  # Per link. Beyond it calls are refused at once (LinkFull), which the door turns into 503.
_SWEEP_SECONDS = 0.25
_RECONNECT_SECONDS = (0.05, 0.1, 0.2, 0.4, 0.8, 1.0)  # Local network: an owner is back within seconds or not at all.
_NONCE_BYTES = 32
PEER_BYTES = 8
GONE_SECONDS = 5.0  # An edge whose network failed is back sooner (_RECONNECT_SECONDS); a killed one never is.


class LinkFull(Exception):
    """Too much is unanswered on this link already."""


class LinkTimeout(Exception):
    """No answer within the caller's time; whether the request was carried out is not known."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One sort of request. Numbers are the wire's; they must never be reused for another meaning."""

    number: int
    request_type: Any
    reply_type: Any

    def frame_decoder(self) -> Any:
        item: Any = self.request_type
        return msgspec.msgpack.Decoder(tuple.__class_getitem__((int, list[tuple[int, item]])))


# What a handler may give back for one item: the reply; the reply that holds once the future is done; or an awaitable.
Handled = Any
FrameHandler = Callable[[list[Any]], list[Handled]]


def _prove(secret: bytes, nonce: bytes, peer: bytes) -> bytes:
    assert len(peer) == PEER_BYTES, len(peer)
    return peer + hmac.digest(secret, b"ledger-gateway hot link" + nonce + peer, "sha256")


# --- the owner's side ---------------------------------------------------------------------------------------------


class LinkServer:
    """Listens for edges. Each kind has a handler that is called with a whole frame's items, in one turn."""

    def __init__(
        self, secret: bytes, handlers: Mapping[Kind, FrameHandler], on_gone: Callable[[bytes], None] | None = None
    ) -> None:
        assert secret, "the hot link needs the secret of the cluster"
        self._secret, self._on_gone = secret, on_gone
        self._sessions: Counter[bytes] = Counter()
        self._handlers = {kind.number: (handler, kind.frame_decoder()) for kind, handler in handlers.items()}
        self._server: Server | None = None

    async def start(self, host: str, port: int = 0) -> int:
        """Listen; gives the port (chosen by the system when 0)."""
        self._server = await serve(
            self._session, host, port, compression=None, max_size=FRAME_BYTES_MAX, ping_interval=5, ping_timeout=20
        )
        return int(next(iter(self._server.sockets)).getsockname()[1])

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    async def _session(self, connection: ServerConnection) -> None:
        nonce = secrets.token_bytes(_NONCE_BYTES)
        await connection.send(nonce)
        proof = await asyncio.wait_for(connection.recv(), 5)
        assert isinstance(proof, bytes), "hot link frames are binary"
        peer = proof[:PEER_BYTES]
        if len(peer) != PEER_BYTES or not hmac.compare_digest(proof, _prove(self._secret, nonce, peer)):
            logger.warning("hot link refused: wrong cluster secret from %s", connection.remote_address)
            await connection.close(1008, "wrong cluster secret")
            return
        outbox = _Outbox(connection)
        self._sessions[peer] += 1
        try:
            async for message in connection:
                assert isinstance(message, bytes), "hot link frames are binary"
                self._take_frame(message, outbox)
        except ConnectionClosed:
            pass
        finally:
            outbox.close()
            self._sessions[peer] -= 1
            asyncio.get_running_loop().call_later(GONE_SECONDS, self._check_gone, peer)

    def _check_gone(self, peer: bytes) -> None:
        if peer in self._sessions and self._sessions[peer] == 0:
            del self._sessions[peer]
            if self._on_gone is not None:
                self._on_gone(peer)

    def _take_frame(self, message: bytes, outbox: "_Outbox") -> None:
        number = message[0]
        handler, decoder = self._handlers[number]
        frame, items = decoder.decode(memoryview(message)[1:])
        results = handler([item for _, item in items])
        ready: list[tuple[int, Any]] = []
        waiting: dict[asyncio.Future[None], list[tuple[int, Any]]] = {}
        for (sequence, _), result in zip(items, results, strict=True):
            if isinstance(result, tuple):
                reply, future = result
                if future is None:
                    ready.append((sequence, reply))
                else:
                    waiting.setdefault(future, []).append((sequence, reply))
            elif isinstance(result, msgspec.Struct):
                ready.append((sequence, result))
            else:
                outbox.later(number, sequence, result)
        acknowledged_later = bool(waiting) and not ready
        if not acknowledged_later:
            outbox.put(frame, number, ready)
        for future, replies in waiting.items():
            outbox.when(future, frame if acknowledged_later else 0, number, replies)
            acknowledged_later = False


class _Outbox:
    """Answers of one connection, sent in the order they become ready, several in one message where they gather."""

    def __init__(self, connection: ServerConnection) -> None:
        self._connection = connection
        self._encoder = msgspec.msgpack.Encoder()
        self._messages: list[tuple[int, int, list[tuple[int, Any]]]] = []
        self._wake = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False
        self._keep(asyncio.ensure_future(self._write()))

    def put(self, frame: int, number: int, replies: list[tuple[int, Any]]) -> None:
        self._messages.append((frame, number, replies))
        self._wake.set()

    def later(self, number: int, sequence: int, result: Awaitable[Any]) -> None:
        self._keep(asyncio.ensure_future(self._resolve(number, sequence, result)))

    def when(self, future: "asyncio.Future[None]", frame: int, number: int, replies: list[tuple[int, Any]]) -> None:
        def done(finished: "asyncio.Future[None]") -> None:
            # A failed commit answers nothing: the edge asks again, by operation id, and learns what the ledger says.
            failed = finished.cancelled() or finished.exception() is not None
            self.put(frame, number, [(sequence, None) for sequence, _ in replies] if failed else replies)

        future.add_done_callback(done)

    def close(self) -> None:
        self._closed = True
        for task in self._tasks:
            task.cancel()

    def _keep(self, task: "asyncio.Task[None]") -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _resolve(self, number: int, sequence: int, result: Awaitable[Any]) -> None:
        try:
            reply = await result
        except asyncio.CancelledError:
            raise
        except Exception:  # The edge must learn that this one item failed, whatever the reason.
            logger.exception("hot link: a request failed")
            reply = None
        self.put(0, number, [(sequence, reply)])

    async def _write(self) -> None:
        while not self._closed:
            await self._wake.wait()
            self._wake.clear()
            messages, self._messages = self._messages, []
            for message in messages:
                try:
                    await self._connection.send(self._encoder.encode(message))
                except ConnectionClosed:
                    return


# --- the edge's side ----------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Call:
    kind: int
    item: Any
    future: "asyncio.Future[Any]"
    deadline: float
    again: int = 0


@dataclass(slots=True)
class _Lane:
    """What waits and what flies of one kind."""

    decoder: Any
    waiting: list[int] = field(default_factory=list)
    frames: set[int] = field(default_factory=set)


class Link:
    """One edge's connection to one owner. `resolve` gives the owner's current (host, port); it is asked again after
    every break, so that a restarted owner is found wherever it now lives."""

    def __init__(
        self,
        secret: bytes,
        kinds: tuple[Kind, ...],
        resolve: Callable[[], Awaitable[tuple[str, int]]],
        peer: bytes = bytes(PEER_BYTES),
    ) -> None:
        self._secret, self._resolve, self._peer = secret, resolve, peer
        self._lanes = {kind.number: _Lane(msgspec.msgpack.Decoder(kind.reply_type | None)) for kind in kinds}
        self._answer_decoder = msgspec.msgpack.Decoder(tuple[int, int, list[tuple[int, msgspec.Raw]]])
        self._encoder = msgspec.msgpack.Encoder()
        self._calls: dict[int, _Call] = {}
        self._sequence = self._frame = 0
        self._connection: ClientConnection | None = None
        self._wake = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self._tasks = [asyncio.create_task(self._keep_connected()), asyncio.create_task(self._sweep())]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for call in self._calls.values():
            if not call.future.done():
                call.future.set_exception(LinkTimeout("the link was closed"))
        self._calls.clear()

    @property
    def connected(self) -> bool:
        return self._connection is not None

    @property
    def unanswered(self) -> int:
        return len(self._calls)

    def call(self, kind: Kind, item: Any, wait_ms: int) -> "asyncio.Future[Any]":
        """Send with the next frame. The future gives the reply, or LinkTimeout after wait_ms."""
        if len(self._calls) >= UNANSWERED_MAX:
            raise LinkFull
        loop = asyncio.get_running_loop()
        self._sequence += 1
        future: asyncio.Future[Any] = loop.create_future()
        self._calls[self._sequence] = _Call(kind.number, item, future, loop.time() + wait_ms / 1000)
        self._lanes[kind.number].waiting.append(self._sequence)
        self._wake.set()
        return future

    async def _keep_connected(self) -> None:
        attempt = 0
        while True:
            try:
                host, port = await self._resolve()
                async with connect(
                    f"ws://{host}:{port}",
                    compression=None,
                    max_size=FRAME_BYTES_MAX,
                    open_timeout=2,
                    proxy=None,
                    ping_interval=5,
                    ping_timeout=20,
                    close_timeout=1,
                ) as connection:
                    nonce = await asyncio.wait_for(connection.recv(), 5)
                    assert isinstance(nonce, bytes), "hot link: the owner speaks first, in binary"
                    await connection.send(_prove(self._secret, nonce, self._peer))
                    attempt = 0
                    await self._serve_connection(connection)
            except (OSError, TimeoutError, WebSocketException) as error:
                logger.info("hot link down: %s", error)
            finally:
                self._connection = None
                self._requeue()
            await asyncio.sleep(_RECONNECT_SECONDS[min(attempt, len(_RECONNECT_SECONDS) - 1)])
            attempt += 1

    async def _serve_connection(self, connection: ClientConnection) -> None:
        self._connection = connection
        self._wake.set()
        writer = asyncio.create_task(self._write(connection))
        try:
            async for message in connection:
                assert isinstance(message, bytes), "hot link frames are binary"
                self._take_answer(message)
        finally:
            writer.cancel()

    async def _write(self, connection: ClientConnection) -> None:
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                for number, lane in self._lanes.items():
                    while lane.waiting and len(lane.frames) < FRAMES_IN_FLIGHT_MAX:
                        await connection.send(self._next_frame(number, lane))
        except ConnectionClosed:
            return

    def _next_frame(self, number: int, lane: _Lane) -> bytes:
        taken, lane.waiting = lane.waiting[:FRAME_ITEMS_MAX], lane.waiting[FRAME_ITEMS_MAX:]
        items = [(sequence, self._calls[sequence].item) for sequence in taken if sequence in self._calls]
        self._frame += 1
        lane.frames.add(self._frame)
        buffer = bytearray((number,))
        self._encoder.encode_into((self._frame, items), buffer, 1)
        return bytes(buffer)

    def _take_answer(self, message: bytes) -> None:
        frame, number, replies = self._answer_decoder.decode(message)
        lane = self._lanes[number]
        if frame:
            lane.frames.discard(frame)
            if lane.waiting:
                self._wake.set()
        for sequence, raw in replies:
            call = self._calls.get(sequence)
            if call is None:
                continue
            reply = lane.decoder.decode(raw)
            if reply is None:
                self._ask_again(sequence, call)
                continue
            del self._calls[sequence]
            if not call.future.done():
                call.future.set_result(reply)

    def _ask_again(self, sequence: int, call: _Call) -> None:
        """The owner could not say (its commit failed): the same request again, a little later each time."""
        call.again += 1
        pause = min(0.05 * 2**call.again, 1.0)
        asyncio.get_running_loop().call_later(pause, self._queue_again, sequence)

    def _queue_again(self, sequence: int) -> None:
        call = self._calls.get(sequence)
        if call is not None and sequence not in self._lanes[call.kind].waiting:
            self._lanes[call.kind].waiting.append(sequence)
            self._wake.set()

    def _requeue(self) -> None:
        """After a break everything unanswered goes again, oldest first."""
        for lane in self._lanes.values():
            lane.waiting, lane.frames = [], set()
        for sequence in sorted(self._calls):
            self._lanes[self._calls[sequence].kind].waiting.append(sequence)

    async def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_SWEEP_SECONDS)
            now = loop.time()
            late = [sequence for sequence, call in self._calls.items() if call.deadline < now or call.future.done()]
            for sequence in late:
                call = self._calls.pop(sequence)
                if not call.future.done():
                    call.future.set_exception(LinkTimeout("the owner did not answer in time"))
