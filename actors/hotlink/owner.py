"""Listens for replicas, and writes all ready answers at once: the owner's end of the hot link.

Implements: design, "Measured facts" (never one actor call per request; coalesced frames; the first frames prove a
secret of the cluster). Generic: it knows kinds, sequence numbers and futures; no rule of any context may live here. A
request may arrive twice, so it must be idempotent by its own operation id.

The replica's proof also names the replica. When all connections of a replica have been gone for GONE_SECONDS, `on_gone`
is called: the replica is given up, and the customers of its calls can be refunded. A replica that was only cut off may
come back. If `is_given_up` says that it was given up meanwhile, the first message to it, before any answer, tells it to
start over under another name. So a replica that gets an answer on a connection was not given up before, and will not be
while that connection stands and GONE_SECONDS longer.

When full: an owner that cannot write its answers reads no further frames until it can. Frames that it has read are
still answered; UNANSWERED_MAX of the replica bounds their number (replica.py).
"""

import asyncio
import logging
import secrets
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from actors.hotlink.frames import (
    FAILED,
    OF_THE_REPLICA,
    START_OVER,
    UNKNOWN,
    AskAgain,
    FrameConnection,
    MessageKind,
    message,
)
from actors.hotlink.handshake import NONCE_BYTES, REPLICA_PROOF_BYTES, transcript_of

logger = logging.getLogger(__name__)

UNPROVEN_MAX = 64  # Connections without a proof so far; each has BEAT_SECONDS to send it.
UNHURRIED_SECONDS = 0.005  # How long an answer without a waiting caller may wait to be sent with others.
GONE_SECONDS = 5.0  # A replica whose network failed is back sooner (replica.py); a killed one does not come back.


# For each item, a handler returns the reply; or (reply, future), and the reply is sent when the future is done; or an
# awaitable of the reply.
Handled = Any
FrameHandler = Callable[[list[Any]], list[Handled]]


class _Failed(msgspec.Struct, frozen=True):
    pass


class _Unknown(msgspec.Struct, frozen=True):
    pass


class StartOver(msgspec.Struct, frozen=True):
    """The result of a handler for a request of a replica that the owner has given up."""


_MARKS: dict[type, bool | None] = {_Failed: FAILED, _Unknown: UNKNOWN, StartOver: START_OVER}


def each(handle: Callable[[Any], Handled]) -> FrameHandler:
    """Make a frame handler from a handler of single items; an item that raises fails alone."""

    def handle_frame(items: list[Any]) -> list[Handled]:
        results: list[Handled] = []
        for item in items:
            try:
                results.append(handle(item))
            except AskAgain:
                results.append(_Unknown())
            except Exception:
                logger.exception("hot link: a request failed", extra=_names(item))
                results.append(_Failed())
        return results

    return handle_frame


def _names(item: Any) -> dict[str, str]:
    """Return what a log line calls a request of any kind by: the client's request, and the operation."""
    found = {"request_id": getattr(item, "request_id", ""), "operation": getattr(item, "operation", b"").hex()}
    return {name: value for name, value in found.items() if value}


class LinkServer:
    """Listens for replicas. Each kind has a handler that is called with a whole frame's items, in one turn."""

    def __init__(
        self,
        secret: bytes,
        handlers: Mapping[MessageKind, FrameHandler],
        on_gone: Callable[[bytes], None] | None = None,
        is_given_up: Callable[[bytes], bool] | None = None,
    ) -> None:
        assert secret, "the hot link needs the secret of the cluster"
        self.secret, self._on_gone = secret, on_gone
        self.is_given_up = is_given_up or (lambda _: False)
        self.handlers = {kind.number: (handler, kind.frame_decoder()) for kind, handler in handlers.items()}
        self.unhurried = frozenset(kind.number for kind in handlers if kind.is_notice)
        self._connections: set[_Session] = set()  # Proven or not.
        self._unproven: dict[_Session, None] = {}  # Oldest first.
        self._sessions: Counter[bytes] = Counter()  # The number of proven connections of each peer.
        self._absent: dict[
            bytes, asyncio.TimerHandle
        ] = {}  # Peers without a connection; the timer is cancelled when one returns.
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int = 0) -> int:
        """Listen, and return the port (the system chooses one for 0)."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Session(self, loop), host, port)
        return int(next(iter(self._server.sockets)).getsockname()[1])

    async def stop(self) -> None:
        """End all connections, as if this process had ended; `on_gone` is not called again."""
        if self._server is not None:
            self._server.close()
            while self._connections:
                connection = next(iter(self._connections))
                connection.abandon()
                await connection.ended.wait()
            await self._server.wait_closed()
        for timer in self._absent.values():
            timer.cancel()
        self._absent.clear()

    def made(self, session: "_Session") -> None:
        """Keep the connection. Beyond UNPROVEN_MAX, drop the oldest unproven one, which is no replica: replicas need
        only
        milliseconds for their proof."""
        self._connections.add(session)
        self._unproven[session] = None
        if len(self._unproven) > UNPROVEN_MAX:
            oldest = next(iter(self._unproven))
            del self._unproven[oldest]
            oldest.drop("too many connections that have not proven themselves")

    def proven(self, session: "_Session", peer: bytes) -> None:
        self._unproven.pop(session, None)
        self._sessions[peer] += 1
        if (timer := self._absent.pop(peer, None)) is not None:
            timer.cancel()

    def lost(self, session: "_Session") -> None:
        self._connections.discard(session)
        self._unproven.pop(session, None)
        peer = session.peer
        if peer is None:
            return
        self._sessions[peer] -= 1
        if self._sessions[peer] == 0:
            del self._sessions[peer]
            self._absent[peer] = session.loop.call_later(GONE_SECONDS, self._tell_gone, peer)

    def _tell_gone(self, peer: bytes) -> None:
        del self._absent[peer]
        if self._on_gone is not None:
            self._on_gone(peer)


class _Session(FrameConnection):
    """One connection of a replica. All answers of one turn of the event loop leave in one write."""

    def __init__(self, server: LinkServer, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop, REPLICA_PROOF_BYTES)
        self._server = server
        self._nonce = secrets.token_bytes(NONCE_BYTES)
        self.peer: bytes | None = None  # None until the replica has proven itself.
        self._ready: list[bytes] = []  # Messages for the next flush.
        self._flush_is_due = False
        self._waiting = 0  # Frames, or parts of frames, whose replies wait for a future.
        self._unhurried: list[bytes] = []  # Messages that leave with the next flush, or after UNHURRIED_SECONDS.
        self._tasks: set[asyncio.Task[None]] = set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._server.made(self)
        self.greet(self._nonce)

    def greeted(self, frame: bytes) -> None:
        transcript = transcript_of(self._server.secret, self._nonce, frame)
        if transcript is None or not transcript.is_replica_proof(frame):
            self.drop("wrong cluster secret")
            return
        self.peer = transcript.peer
        self.greet(transcript.owner_proof())
        self.stand(transcript.owner_key(), transcript.replica_key())
        self._server.proven(self, transcript.peer)
        if self._server.is_given_up(transcript.peer):
            self.write([message(next(iter(self._server.handlers)), (0, [(OF_THE_REPLICA, START_OVER)]))])

    def taken(self, frame: bytes) -> None:
        number = frame[0]
        handler, decoder = self._server.handlers[number]
        frame_number, items = decoder.decode(frame[1:])
        results = handler([item for _, item in items])
        ready: list[tuple[int, Any]] = []
        waiting: dict[asyncio.Future[None], list[tuple[int, Any]]] = {}
        for (sequence, item), result in zip(items, results, strict=True):
            if type(result) is tuple:
                reply, future = result
                if future is None:
                    ready.append((sequence, reply))
                else:
                    waiting.setdefault(future, []).append((sequence, reply))
            elif isinstance(result, msgspec.Struct):
                ready.append((sequence, _MARKS.get(type(result), result)))
            else:
                self._answer_later(number, sequence, item, result)
        if ready or not waiting:
            answer = message(number, (frame_number, ready))
            if number in self._server.unhurried:
                self._answer_unhurried(answer)
            else:
                self._ready.append(answer)
            frame_number = 0
        for future, replies in waiting.items():
            self._answer_when(future, number, frame_number, replies)
            frame_number = 0

    def read(self) -> None:
        """Flush at once instead of in the next turn, as most replies are ready by now."""
        if self._ready:
            self._flush()

    def lost(self) -> None:
        for task in self._tasks:
            task.cancel()
        self._server.lost(self)

    def pause_writing(self) -> None:
        super().pause_writing()
        if self.standing:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self.standing:
            self._transport.resume_reading()

    # --- answers that come later ----------------------------------------------------------------------------------

    def _answer(self, number: int, frame_number: int, replies: list[tuple[int, Any]]) -> None:
        self._ready.append(message(number, (frame_number, replies)))
        if not self._flush_is_due:
            self._flush_is_due = True
            self.loop.call_soon(self._flush_due)

    def _flush_due(self) -> None:
        self._flush_is_due = False
        if self._ready:
            self._flush()

    def _answer_unhurried(self, answer: bytes) -> None:
        """Let an answer that nobody waits for leave with another one: a write, and the wake-up of the replica by it,
        are most of its cost."""
        if not self._unhurried:
            self.loop.call_later(UNHURRIED_SECONDS, self._flush_unhurried)
        self._unhurried.append(answer)

    def _flush_unhurried(self) -> None:
        if self._unhurried and self.standing:
            self._flush()

    def _flush(self) -> None:
        ready, self._ready = self._unhurried + self._ready, []
        self._unhurried = []
        self.write(ready)

    def _answer_when(
        self, future: "asyncio.Future[None]", number: int, frame_number: int, replies: list[tuple[int, Any]]
    ) -> None:
        def done(finished: "asyncio.Future[None]") -> None:
            self._waiting -= 1
            # After a failed commit the replica asks again, and the ledger finds written entries by operation id.
            failed = finished.cancelled() or finished.exception() is not None
            if not self.standing:
                return
            told = [(sequence, UNKNOWN) for sequence, _ in replies] if failed else replies
            if self._waiting:
                self._answer(number, frame_number, told)
            else:  # No other reply waits for a group, so another turn of the loop would only delay this one.
                self._ready.append(message(number, (frame_number, told)))
                self._flush()

        self._waiting += 1
        future.add_done_callback(done)

    def _answer_later(self, number: int, sequence: int, item: Any, result: Awaitable[Any]) -> None:
        task = self.loop.create_task(self._resolve(number, sequence, item, result))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _resolve(self, number: int, sequence: int, item: Any, result: Awaitable[Any]) -> None:
        try:
            reply = await result
        except asyncio.CancelledError:
            raise
        except AskAgain:
            reply = UNKNOWN
        except Exception:  # The replica must learn that this item failed, whatever the reason.
            logger.exception("hot link: a request failed", extra=_names(item))
            reply = FAILED
        self._answer(number, 0, [(sequence, reply)])
