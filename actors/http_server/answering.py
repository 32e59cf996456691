"""The answering half of a connection: writes the answers, and closes connections of clients that read or send nothing.

Implements: threats 8, 13 and 36 on the hot paths. A shell around uvicorn's HttpToolsProtocol, whose inside it rests on.
Not here: how requests are read (server.py).
"""

import asyncio
import logging
import socket
from collections.abc import Coroutine
from functools import partial
from typing import Any, cast

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import ServerState

from actors.http_server.exchange import Answer, AnswerWithdrawn, Charges, Doorway, HttpRequest, SocketDoor, Upgrade
from actors.http_server.responses import CLOSE, HeaderList, HttpResponse, MadeBody

logger = logging.getLogger(__name__)

# A client that reads nothing for this long loses its connection, because its answer holds memory that others need.
_TAKES_NOTHING_SECONDS_MAX = 30.0
_LOOK_SECONDS = 5.0  # Interval of checking a client that does not read everything written.
_LOOKS_MAX = round(_TAKES_NOTHING_SECONDS_MAX / _LOOK_SECONDS)
# With more in memory the connection counts as unread; asyncio's own bound is four times as high.
_WRITTEN_BYTES_MAX = 16_384
# From so many bytes on, pieces of a large answer are written, together: in one system call and one turn of the loop. It
# takes the kernel 0.2 to 0.4 ms.
_WRITTEN_AT_ONCE_BYTES = 1 << 20
# Most that the kernel holds of an answer that its client does not read, in addition to bytes on the way. Without a
# bound it takes up to 4 MB for each connection. A front on the same machine reads as fast with it.
_KERNEL_BYTES_MAX = 131_072
_BROKEN = b"HTTP/1.1 500 Internal Server Error\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
_SWITCHING = b"HTTP/1.1 101 Switching Protocols\r\n"
_TCP_NOTSENT_LOWAT = 25  # Of Linux; Python 3.11 has no name for it.
_UNANSWERED = "a request could not be answered"


class AnsweringHttp(HttpToolsProtocol):
    """uvicorn's protocol, which can also write an answer that a door made."""

    __slots__ = (
        *("_answering", "_arrival", "_doorway", "_idle_since", "_last_words", "_looks", "_reading", "_rest", "_sealed"),
        *("_payer", "_taking", "_unread", "_unread_owner"),
    )

    def __init__(
        self,
        doorway: Doorway,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._doorway = doorway
        self._sealed = False  # True: no further byte reaches the parser.
        self._reading: Any = None  # The request whose body is being read: a HttpRequest, or uvicorn's cycle.
        self._answering: HttpRequest | None = None  # The request being answered; `cycle` may already be a later one.
        self._last_words: bytes | None = None  # A refusal that waits until earlier requests are answered.
        self._idle_since: float | None = None
        self._arrival: asyncio.TimerHandle | None = None  # Set only for requests that arrive in several pieces.
        self._taking: asyncio.TimerHandle | None = None  # Runs while more is written than the client has read.
        self._looks = 0  # Checks in a row during which the client read nothing.
        self._rest = 0  # Bytes of an answer in parts; all stay in memory until it has ended.
        self._unread = 0  # Bytes counted for _unread_owner.
        self._unread_owner: bytes | str = ""
        self._payer: bytes | None = None  # The account that paid for the answer being written.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=_WRITTEN_BYTES_MAX)
        _bound_kernel(transport, _KERNEL_BYTES_MAX)

    def connection_lost(self, exc: Exception | None) -> None:
        """Notify the requests. uvicorn notifies only the last one; the one being answered may have others behind it."""
        for timer in (self._taking, self.timeout_keep_alive_task):
            if timer is not None:
                timer.cancel()
        self._count_unread(0)
        self._sealed = True
        answering, last = self._answering, cast(object, self.cycle)
        if answering is not None and answering.waiting is not None:
            answering.waiting.add_done_callback(partial(self._lost, answering.work))
        super().connection_lost(exc)
        if answering is not None and answering is not last:
            answering.disconnected = True
            answering.set()

    def _lost(self, work: Coroutine[Any, Any, HttpResponse] | None, task: Any) -> None:
        """Close the work of a task that was cancelled before it began, which ends nothing by itself."""
        self.tasks.discard(task)
        if work is not None:
            work.close()

    def _carry_out(self, request: HttpRequest, answer: Answer) -> None:
        """Write a door's answer, now or when it is ready."""
        if isinstance(answer, bytes):
            self._answer(request, answer)
        elif isinstance(answer, asyncio.Future):
            request.waiting = answer
            answer.add_done_callback(partial(self._ready, request))
        else:
            request.work = answer
            request.waiting = task = self.loop.create_task(self._serve(request, answer))
            self.tasks.add(task)  # _serve removes it.

    def _ready(self, request: HttpRequest, answer: "asyncio.Future[bytes]") -> None:
        """Finish the request. The loop calls this after all that became ready in the same turn, so that a client with
        several connections is woken once."""
        if request.response_complete or self.transport.is_closing():
            return
        try:
            self._answer(request, answer.result())
        except Exception:
            logger.exception(_UNANSWERED)
            self._break_off()

    def _finish_now(self) -> None:
        """Have the running answer made at once, if the door can, because the next request must not wait."""
        request = self._answering
        if request is not None and request.hurry is not None:
            request.hurry()
            self._ready(request, cast(Any, request.waiting))

    def _break_off(self) -> None:
        self._sealed = True
        self._close_with(_BROKEN)

    async def _serve(self, request: HttpRequest, answer: Coroutine[Any, Any, HttpResponse]) -> None:
        task: Any = request.waiting
        late: Charges = request.door.late  # type: ignore[assignment]  # A cast is a call, and this is on every path.
        made: MadeBody | None = None
        try:
            response = await answer
            made = response.made
            request.waiting = None  # Completes the answer even after a disconnect.
            if self.flow.write_paused and not request.disconnected:
                await self.flow.drain()
            if response.charges and not late.may_leave(response.charges):
                response = await late.confirmed(response, request.notes)
            if response.charges:
                self._payer = getattr(response.charges[0], "pubkey", None)
            if not response.parts and response.made is None:
                self._answer(request, response)
            elif not request.disconnected:
                self._rest = sum(map(len, response.parts)) if response.made is None else response.made.held_bytes
                await self._answer_in_parts(request, response)
            if response.charges:
                late.delivered(response.charges)
        except asyncio.CancelledError:
            # The client left, and the door has handled that; or the server gives up, and nobody may wait for an answer
            # that never comes.
            if not request.disconnected:
                self.transport.close()
                raise
        except AnswerWithdrawn as withdrawn:
            logger.warning("request %s: its answer is broken off, as its charge was withdrawn", withdrawn)
            self.transport.abort()
        except Exception:
            logger.exception("an answer could not be written")
            self.transport.close()
        finally:
            self._rest, self._payer = 0, None
            if made is not None:
                made.close()
            self.tasks.discard(task)

    # --- WebSocket handshakes

    def _begin_upgrade(self, request: HttpRequest, behind: bytes) -> None:
        """Let the door decide. behind: bytes after the handshake, which the door must not see before it has decided."""
        if self._arrival is not None:
            self._arrival.cancel()
            self._arrival = None
        self.flow.pause_reading()
        self.cycle = cast(Any, request)  # So that it is notified when the connection is lost.
        self._answering = request
        request.waiting = task = self.loop.create_task(self._upgrade(request, behind))
        self.tasks.add(task)

    async def _upgrade(self, request: HttpRequest, behind: bytes) -> None:
        task = cast(Any, request.waiting)
        try:
            answer = await cast(SocketDoor, request.door).upgrade(request)
            request.waiting = None
            if request.disconnected or self.transport.is_closing():
                return
            if isinstance(answer, Upgrade):
                self._switch(answer, behind)
            else:
                self._answer(request, answer)
        except Exception:
            logger.exception("a WebSocket handshake could not be answered")
            self._break_off()
        finally:
            self.tasks.discard(task)

    def _switch(self, upgrade: Upgrade, behind: bytes) -> None:
        """Continue as a WebSocket: from here on this object no longer handles the connection."""
        if self.timeout_keep_alive_task is not None:
            self.timeout_keep_alive_task.cancel()
        self.connections.discard(self)
        protocol = upgrade.protocol(self.connections)
        self.transport.write(_SWITCHING + b"\r\n".join((*map(b": ".join, upgrade.headers), b"\r\n")))
        self.transport.set_write_buffer_limits()  # A WebSocket has its own bounds.
        _bound_kernel(self.transport, 0)
        self.transport.set_protocol(protocol)
        # It and this object hold each other; uvicorn does the same when a connection is lost.
        self.parser = None  # type: ignore[assignment]
        self.flow.resume_reading()  # Before the protocol gets data, because it may stop the reading itself.
        protocol.connection_made(self.transport)
        if behind:
            protocol.data_received(behind)

    def _answer(self, request: HttpRequest, answer: bytes | HttpResponse) -> None:
        if not request.disconnected:
            whole = answer if isinstance(answer, bytes) else self._head(request, answer) + answer.body
            self.transport.write(whole)
            self._end(request)

    async def _answer_in_parts(self, request: HttpRequest, response: HttpResponse) -> None:
        """Send as fast as the client reads; a client that reads nothing loses its connection."""
        made, head = response.made, self._head(request, response)
        ready: list[bytes | memoryview] = [head]  # Written by one system call: each costs as much as 64 kB more.
        ready_bytes = len(head)

        async def send(message: Any) -> None:
            nonlocal ready, ready_bytes
            piece: bytes | memoryview = message["body"]
            if request.disconnected:
                if made is not None:
                    made.close()
            elif made is not None:
                self._rest = made.held_bytes
                # An empty piece would end the body.
                self.transport.write(b"".join((b"%x\r\n" % len(piece), piece, b"\r\n")))
                await self.flow.drain()
            else:
                if piece:
                    ready.append(piece)
                    ready_bytes += len(piece)
                if ready_bytes >= _WRITTEN_AT_ONCE_BYTES or not message.get("more_body"):
                    writing, ready, ready_bytes = ready, [], 0
                    self.transport.writelines(writing)
                    await self.flow.drain()

        if made is not None:
            self.transport.write(head)
        if not await cast(Charges, request.door.late).send_parts(send, response):
            self.transport.abort()  # Unread written bytes would keep the whole answer in memory.
        elif not request.disconnected:
            self._end(request)

    def _head(self, request: HttpRequest, response: HttpResponse) -> bytes:
        headers = self.server_state.default_headers + response.headers
        if CLOSE in headers:
            request.keep_alive = False
        elif not request.keep_alive:
            headers.append(CLOSE)
        return whole_head(response.status, headers)

    def _end(self, request: HttpRequest) -> None:
        request.response_complete = True
        self._answering = None
        if not request.keep_alive:
            self._sealed = True
            self.transport.close()
        self.on_response_complete()

    def on_response_complete(self) -> None:
        """Called by uvicorn's cycles too."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            self._sealed = True
            return
        flow = self.flow
        if flow.read_paused and not flow.write_paused:
            flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        elif self._last_words is not None:
            self._close_with(self._last_words)
        else:
            self._idle_since = self.loop.time()
            if self.timeout_keep_alive_task is None:
                self._wait_for_more(self.timeout_keep_alive)

    # --- keep-alive: one timer for many requests, where uvicorn makes and cancels one for each

    def _wait_for_more(self, seconds: float) -> None:
        self.timeout_keep_alive_task = self.loop.call_later(seconds, self.timeout_keep_alive_handler)

    def timeout_keep_alive_handler(self) -> None:
        self.timeout_keep_alive_task = None
        if self._idle_since is None:
            return  # A request is running; the next answer starts another wait.
        left = self._idle_since + self.timeout_keep_alive - self.loop.time()
        if left <= 0:
            super().timeout_keep_alive_handler()
        else:
            self._wait_for_more(left)

    def eof_received(self) -> None:
        """Handle the end of the client's data. The client may still read; the connection ends with this turn."""
        self._finish_now()

    def shutdown(self) -> None:
        """Stop: the server ends; received requests are answered first."""
        self._finish_now()
        super().shutdown()

    # --- clients who take nothing: no more is read of them meanwhile, and closing would wait for ever

    def pause_writing(self) -> None:
        super().pause_writing()
        self.flow.pause_reading()
        self._looks = 0
        self._count_unread(max(self._rest, self.transport.get_write_buffer_size()))
        self._watch()

    def resume_writing(self) -> None:
        super().resume_writing()
        cycle = self.cycle
        if not self.pipeline and (cycle is None or cycle.response_complete or cast(Any, cycle) is self._reading):
            self.flow.resume_reading()
        if self._taking is not None:
            self._taking.cancel()
            self._taking = None
        self._count_unread(0)

    def _watch(self) -> None:
        left = self.transport.get_write_buffer_size()
        self._taking = self.loop.call_later(_LOOK_SECONDS, self._look_again, left)

    def _look_again(self, left: int) -> None:
        self._looks = 0 if self.transport.get_write_buffer_size() < left else self._looks + 1
        if self._looks >= _LOOKS_MAX or (self._looks and self._doorway.unread.is_over(self._unread_owner)):
            self.transport.abort()  # A close would wait until the client has read everything.
            self._count_unread(0)
        else:
            self._watch()

    def _count_unread(self, size: int) -> None:
        if size and not self._unread:
            self._unread_owner = self._owner_of_answer()
        if size or self._unread:
            self._doorway.unread.resize(self._unread_owner, self._unread, size)
            self._unread = size

    def _owner_of_answer(self) -> bytes | str:
        """Return the account that pays for the running answer, else the client's address."""
        cycle: Any = self._answering or self.cycle
        if self._payer is not None:
            return self._payer
        if isinstance(cycle, HttpRequest):
            headers, peer = cycle.headers, cycle.peer
        elif cycle is not None:
            headers, peer = cycle.scope["headers"], (cycle.scope["client"] or (None,))[0]
        else:
            headers, peer = [], self.client[0] if self.client else None
        return peer or "" if self._doorway.name_of is None else self._doorway.name_of(headers, peer)

    def _close_with(self, words: bytes) -> None:
        if not self.transport.is_closing():
            self.transport.write(words)
            self.transport.close()


def _bound_kernel(transport: asyncio.BaseTransport, size: int) -> None:
    """Limit the unsent bytes in the kernel. 0: the system's default."""
    connection = transport.get_extra_info("socket")
    if connection is not None and connection.family in (socket.AF_INET, socket.AF_INET6):
        connection.setsockopt(socket.IPPROTO_TCP, _TCP_NOTSENT_LOWAT, size)


def whole_head(status: int, headers: HeaderList) -> bytes:
    head = STATUS_LINE[status] + b"\r\n".join((*map(b": ".join, headers), b"\r\n"))
    # Some values come from settings and nodes: none may start a new header line.
    assert head.count(b"\n") == len(headers) + 2, "a header holds a line break"
    return head
