"""Calls on the server's own terms: from the parser to the door and back in one task and one write.

Implements: design, section 2 (straight to replicas); hostile inputs 7, 8, 13 and 36 on the hot paths.
A shell. A POST of calls whose body is whole needs no ASGI scope, no events and no messages, and its answer leaves in
one write; by way of ASGI that was two fifths of a replica's time. Everything else goes the way of ASGI as before:
other paths and methods, payments, Expect, HTTP/1.0, and a request that arrives while another of the same connection is
being answered (answers keep the order of the requests). Requests whose end is in doubt are refused on both ways
(http_server.py).

Rests on the inside of uvicorn's HttpToolsProtocol; its version is fixed in constraints.txt, and the tests speak to both
ways through real sockets and compare the bytes. Not here: what is answered (door_http.py).
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any, Protocol, cast

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE
from uvicorn.server import ServerState

from actors.calls import SettleRequest
from actors.errors import Err, Refusal
from actors.gateway import answers
from actors.gateway.headers import CLOSE, HeaderList
from actors.gateway.late_answers import LateAnswers
from actors.gateway.replies import Response
from actors.gateway.requests import Client, Looks, look, too_long
from actors.http_server import SealedHttp

logger = logging.getLogger(__name__)

# A client that takes nothing for so long loses its connection: what is meant for it holds room that others wait for.
_TAKES_NOTHING_SECONDS_MAX = 30.0


class SwiftDoor(Protocol):
    """What stands behind: door_http.HttpDoor."""

    @property
    def body_bytes_max(self) -> int: ...

    def takes(self, target: bytes) -> bool:
        """Whether calls are posted to this request target."""
        ...

    async def answer_calls(
        self, target: bytes, sent: HeaderList, body: bytes, looks: Looks, client: Client
    ) -> Response:
        """The whole answer, headers included. Raises nothing but the cancellation of one whose client left."""
        ...

    def refused(self, refusal: Refusal, looks: Looks) -> Response:
        """To a request of which not everything is read: its end is in doubt, or too far away."""
        ...

    @property
    def late(self) -> LateAnswers: ...

    def delivered(self, charges: Sequence[SettleRequest]) -> None: ...


class _Open:
    """The door of this process once it stands; None in processes that have none, and before start-up."""

    door: SwiftDoor | None = None


def open_to(door: SwiftDoor | None) -> None:
    """Send this process's calls straight to this door; None: by way of ASGI again."""
    _Open.door = door


class _Exchange:
    """One request on the short way, with what uvicorn wants to know of whatever it calls a cycle.

    It is the door's Client too. client: host and port of the peer, where it has them.
    """

    __slots__ = (
        *("body", "bytes", "client", "disconnected", "door", "headers", "keep_alive", "looks", "response_complete"),
        "task",
    )

    def __init__(self, door: SwiftDoor, headers: HeaderList, looks: Looks, client: tuple[str, int] | None) -> None:
        self.door, self.headers, self.looks, self.client = door, headers, looks, client
        self.body: list[bytes] = []
        self.bytes = 0
        self.keep_alive = True
        self.disconnected = self.response_complete = False
        self.task: asyncio.Task[None] | None = None  # While the answer is being worked on.

    @property
    def peer(self) -> str | None:
        return None if self.client is None else self.client[0]

    @property
    def message_event(self) -> "_Exchange":
        return self

    def set(self) -> None:
        """Told when the connection is lost."""
        if self.disconnected and self.task is not None:
            self.task.cancel()


class SwiftHttp(SealedHttp):
    """uvicorn's protocol with a short way."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._exchange: _Exchange | None = None  # Of the request that is being read, where it takes the short way.
        self._answering: _Exchange | None = None  # A request that came after it may be `cycle` by now.
        self._idle_since: float | None = None
        self._taking: asyncio.TimerHandle | None = None  # While more is written than the client has taken.

    def connection_lost(self, exc: Exception | None) -> None:
        """uvicorn tells the last request only; the one that is being answered may have others behind it."""
        if self._taking is not None:
            self._taking.cancel()
        answering, last = self._answering, cast(object, self.cycle)
        super().connection_lost(exc)
        if answering is not None and answering is not last:
            answering.disconnected = True
            answering.set()

    def begin_request(self) -> Any:
        door = _Open.door
        if door is not None and self._may_be_swift(door):
            looks = look(self.headers)
            looks.edge_id = b""  # Nothing of ours is outside: whatever the request carries is a stranger's.
            if looks.fault is None and not looks.pays:
                self.cycle = self._exchange = _Exchange(door, self.headers, looks, self.client)  # type: ignore[assignment]
                return self._exchange
        self._exchange = None
        return self.by_asgi()

    def _may_be_swift(self, door: SwiftDoor) -> bool:
        parser = self.parser
        return (
            door.takes(self.url)
            and parser.get_method() == b"POST"
            and (self.cycle is None or self.cycle.response_complete)
            and not self.expect_100_continue
            and parser.get_http_version() == "1.1"
        )

    def body_received(self, body: bytes) -> None:
        exchange = self._exchange
        if exchange is None:
            super().body_received(body)
            return
        exchange.bytes += len(body)
        if exchange.bytes <= exchange.door.body_bytes_max:
            exchange.body.append(body)
        elif not exchange.response_complete:
            exchange.body.clear()
            self._answer(exchange, exchange.door.refused(too_long(exchange.door.body_bytes_max), exchange.looks))

    def request_complete(self) -> None:
        exchange = self._exchange
        if exchange is None:
            super().request_complete()
            return
        if exchange.response_complete:
            return
        exchange.keep_alive = exchange.keep_alive and self.parser.should_keep_alive()
        self._answering = exchange
        exchange.task = self.loop.create_task(self._serve(exchange, self.url))
        self.tasks.add(exchange.task)
        exchange.task.add_done_callback(self.tasks.discard)

    # --- keep-alive: one timer for many requests, where uvicorn makes and cancels one for each

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
            return
        if self.say_last_words():
            return
        self._idle_since = self.loop.time()
        if self.timeout_keep_alive_task is None:
            self._wait_for_more(self.timeout_keep_alive)

    def _unset_keepalive_if_required(self) -> None:
        self._idle_since = None
        if self.transport.is_closing():
            super()._unset_keepalive_if_required()

    def _wait_for_more(self, seconds: float) -> None:
        self.timeout_keep_alive_task = self.loop.call_later(seconds, self.timeout_keep_alive_handler)

    def timeout_keep_alive_handler(self) -> None:
        self.timeout_keep_alive_task = None
        if self._idle_since is None:
            return  # It is working; the next answer begins another wait.
        left = self._idle_since + self.timeout_keep_alive - self.loop.time()
        if left <= 0:
            super().timeout_keep_alive_handler()
        else:
            self._wait_for_more(left)

    # --- clients who take nothing, and what closing leaves of their answers

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._taking is not None:
            self._taking.cancel()
            self._taking = None

    def _watch(self) -> None:
        left = self.transport.get_write_buffer_size()
        self._taking = self.loop.call_later(_TAKES_NOTHING_SECONDS_MAX, self._look_again, left)

    def _look_again(self, left: int) -> None:
        if self.transport.get_write_buffer_size() < left:
            self._watch()
        else:
            self.transport.abort()  # Closing would wait, for ever, until the client has taken the rest.

    # --- answers

    async def _serve(self, exchange: _Exchange, target: bytes) -> None:
        parts = exchange.body
        body = parts[0] if len(parts) == 1 else b"".join(parts)
        try:
            response = await exchange.door.answer_calls(target, exchange.headers, body, exchange.looks, exchange)
        except asyncio.CancelledError:
            if exchange.disconnected:
                return  # The client left, and the pipeline has seen to what that means.
            self.transport.close()  # The server has run out of patience: nobody waits for an answer that never comes.
            raise
        exchange.task = None  # From here on a client who leaves changes nothing: its answer is on its way.
        try:
            if self.flow.write_paused and not exchange.disconnected:
                await self.flow.drain()
            if response.charges and not exchange.door.late.may_leave(response.charges):
                response = await exchange.door.late.confirmed(response, exchange.looks)
            if response.parts:
                await self._answer_in_parts(exchange, response)
            else:
                self._answer(exchange, response)
        except answers.ChargeWithdrawn:
            logger.warning("request %s: its answer is broken off, as its charge was withdrawn", response.id)
            self.transport.abort()
            return
        except Exception:
            logger.exception("an answer could not be written")
            self.transport.close()
            return
        if response.charges:
            exchange.door.delivered(response.charges)

    def _answer(self, exchange: _Exchange, response: Response) -> None:
        if not exchange.disconnected:
            self.transport.write(self._head(exchange, response) + response.body)
            self._end(exchange)

    async def _answer_in_parts(self, exchange: _Exchange, response: Response) -> None:
        """As fast as the client takes it; a client that takes nothing loses its connection."""

        async def send(message: Any) -> None:
            piece: bytes | memoryview = message["body"]
            if piece and not exchange.disconnected:
                self.transport.write(piece)
                await self.flow.drain()

        if exchange.disconnected:
            return
        self.transport.write(self._head(exchange, response))
        ending = exchange.door.late.ending(response.charges)
        if not await answers.send_parts(send, response.parts, response.id, ending):
            self.transport.abort()  # What is written and not taken would keep the whole of it in memory.
            return
        if not exchange.disconnected:
            self._end(exchange)

    def _head(self, exchange: _Exchange, response: Response) -> bytes:
        headers = [*self.server_state.default_headers, *response.headers]
        if CLOSE in headers:
            exchange.keep_alive = False
        elif not exchange.keep_alive:
            headers.append(CLOSE)
        return self._whole_head(response.status, headers)

    @staticmethod
    def _whole_head(status: int, headers: HeaderList) -> bytes:
        head = STATUS_LINE[status] + b"\r\n".join((*map(b": ".join, headers), b"\r\n"))
        # Values are made here, some of them from settings and from nodes' words: none may begin a line of its own.
        assert head.count(b"\n") == len(headers) + 2, "a header holds a line break"
        return head

    def _end(self, exchange: _Exchange) -> None:
        exchange.response_complete = True
        self._answering = None
        if not exchange.keep_alive:
            self.seal()
            self.transport.close()
        self.on_response_complete()

    def refusal(self, reason: str, is_head: bool) -> bytes:
        door = _Open.door
        if door is None:
            return super().refusal(reason, is_head)
        response = door.refused(Refusal(Err.INVALID_REQUEST, reason), Looks())
        return self._whole_head(response.status, response.headers) + (b"" if is_head else response.body)
