"""The hot link: one long-lived connection from an edge to an owner, carrying everything that gathered as one frame.

Implements: design, section 2 (never one actor call per request; coalesced frames; at most two in flight of each
kind; the first frame proves a secret of the cluster; a broken link is re-made and what is unanswered is sent again).
This is what travels, and the owner's side; the edge's side is hotlink_edge.py. Generic: knows kinds, sequence numbers
and futures; no rule of any context may live here. Requests must therefore be idempotent, each by its own operation id.

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
from dataclasses import dataclass
from typing import Any

import msgspec
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed

logger = logging.getLogger(__name__)

FRAME_BYTES_MAX = 16 << 20
_NONCE_BYTES = 32
PEER_BYTES = 8
GONE_SECONDS = 5.0  # An edge whose network failed is back sooner (_RECONNECT_SECONDS); a killed one never is.


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

# On the wire in place of a reply. UNKNOWN: not known, ask again. FAILED: a fault of the owner's; asking again would
# only fail again, and would hold up everything else of this edge.
UNKNOWN, FAILED = None, False


class AskAgain(Exception):
    """Raised by a handler that cannot say at the moment: the edge asks again, a little later each time."""


class _Failed(msgspec.Struct, frozen=True):
    pass


class _Unknown(msgspec.Struct, frozen=True):
    pass


_MARKS: dict[type, bool | None] = {_Failed: FAILED, _Unknown: UNKNOWN}


def each(handle: Callable[[Any], Handled]) -> FrameHandler:
    """A frame handler from one for a single item; an item that raises fails alone."""

    def handle_frame(items: list[Any]) -> list[Handled]:
        return [_guarded(handle, item) for item in items]

    return handle_frame


def _guarded(handle: Callable[[Any], Handled], item: Any) -> Handled:
    try:
        return handle(item)
    except AskAgain:
        return _Unknown()
    except Exception:
        logger.exception("hot link: a request failed")
        return _Failed()


def prove(secret: bytes, nonce: bytes, peer: bytes) -> bytes:
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
        self._absent: dict[bytes, asyncio.TimerHandle] = {}  # Peers without a session; cancelled when they return.
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
        if len(peer) != PEER_BYTES or not hmac.compare_digest(proof, prove(self._secret, nonce, peer)):
            logger.warning("hot link refused: wrong cluster secret from %s", connection.remote_address)
            await connection.close(1008, "wrong cluster secret")
            return
        outbox = _Outbox(connection)
        self._sessions[peer] += 1
        if (timer := self._absent.pop(peer, None)) is not None:
            timer.cancel()
        try:
            async for message in connection:
                assert isinstance(message, bytes), "hot link frames are binary"
                self._take_frame(message, outbox)
                await outbox.flush()  # At once, not by the writer's next turn: most replies are ready by now.
        except ConnectionClosed:
            pass
        finally:
            outbox.close()
            self._sessions[peer] -= 1
            if self._sessions[peer] == 0:
                del self._sessions[peer]
                self._absent[peer] = asyncio.get_running_loop().call_later(GONE_SECONDS, self._tell_gone, peer)

    def _tell_gone(self, peer: bytes) -> None:
        del self._absent[peer]
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
                ready.append((sequence, _MARKS.get(type(result), result)))
            else:
                outbox.later(number, sequence, result)
        acknowledged_later = bool(waiting) and not ready
        if not acknowledged_later:
            outbox.add(frame, number, ready)
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

    def add(self, frame: int, number: int, replies: list[tuple[int, Any]]) -> None:
        """For the next flush."""
        self._messages.append((frame, number, replies))

    def put(self, frame: int, number: int, replies: list[tuple[int, Any]]) -> None:
        """For the writer, which is woken."""
        self.add(frame, number, replies)
        self._wake.set()

    async def flush(self) -> None:
        messages, self._messages = self._messages, []
        for message in messages:
            await self._connection.send(self._encoder.encode(message))

    def later(self, number: int, sequence: int, result: Awaitable[Any]) -> None:
        self._keep(asyncio.ensure_future(self._resolve(number, sequence, result)))

    def when(self, future: "asyncio.Future[None]", frame: int, number: int, replies: list[tuple[int, Any]]) -> None:
        def done(finished: "asyncio.Future[None]") -> None:
            # A failed commit answers nothing: the edge asks again, by operation id, and learns what the ledger says.
            failed = finished.cancelled() or finished.exception() is not None
            self.put(frame, number, [(sequence, UNKNOWN) for sequence, _ in replies] if failed else replies)

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
        except AskAgain:
            reply = UNKNOWN
        except Exception:  # The edge must learn that this one item failed, whatever the reason.
            logger.exception("hot link: a request failed")
            reply = FAILED
        self.put(0, number, [(sequence, reply)])

    async def _write(self) -> None:
        while not self._closed:
            await self._wake.wait()
            self._wake.clear()
            try:
                await self.flush()
            except ConnectionClosed:
                return
