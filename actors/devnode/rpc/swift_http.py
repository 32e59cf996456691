"""JSON-RPC calls answered in the turn that read them, on the server that serves everything else.

Implements: a POST to / whose body is whole needs no task, no scope and no events: the answer is written at once. All
other requests, and JSON-RPC while faults may make a call wait, go the way of ASGI. Measured with getAccountInfo on
one core: 101 microseconds of CPU by way of ASGI, half of that here. A send may wait for a check of its signatures.
Rests on the inside of uvicorn's HttpToolsProtocol; its version is fixed in constraints.txt, and the tests beside this
file speak to it through real sockets. Not here: what is answered (http.py).
"""

import asyncio
import logging
from functools import partial
from typing import Any, cast

from uvicorn.config import Config
from uvicorn.server import ServerState

from actors.devnode.rpc.http import BODY_BYTES_MAX, HttpDoor
from actors.devnode.rpc.unfinished import Unfinished
from actors.http_server import SealedHttp

_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\naccess-control-allow-origin: *\r\ncontent-length: "
_HEAD_END = b"\r\n\r\n"
_BROKEN = b"HTTP/1.1 500 Internal Server Error\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
_UNANSWERED = "a call could not be answered"
logger = logging.getLogger("devnode")


class SwiftHttp(SealedHttp):
    """uvicorn's protocol with a shortcut. The application must be an HttpDoor."""

    websocket_paths = None

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._door = cast(HttpDoor, config.app)
        self._is_swift = False
        self._parts: list[bytes] = []
        self._bytes = 0
        self._unfinished: Unfinished[bytes | None] | None = None
        self._unwritten = b""
        self._idle_since: float | None = None
        self._idle_timer: asyncio.TimerHandle | None = None

    def on_message_begin(self) -> None:
        if self._unfinished is not None or self._unwritten:
            self._finish_now()  # Answers keep the order of the requests.
        super().on_message_begin()

    def begin_request(self) -> Any:
        self._is_swift = self._may_be_swift()
        if not self._is_swift:
            return self.by_asgi()
        self._parts, self._bytes = [], 0
        return None

    def _may_be_swift(self) -> bool:
        parser = self.parser
        return (
            self.url == b"/"
            and parser.get_method() == b"POST"
            and (self.cycle is None or self.cycle.response_complete)  # Answers keep the order of the requests.
            and not self.expect_100_continue
            and parser.get_http_version() == "1.1"
            and parser.should_keep_alive()
            and self._door.answers_at_once
        )

    def body_received(self, body: bytes) -> None:
        if not self._is_swift:
            super().body_received(body)
            return
        self._bytes += len(body)
        if self._bytes <= BODY_BYTES_MAX:
            self._parts.append(body)

    def request_complete(self) -> None:
        if not self._is_swift:
            super().request_complete()
            return
        if self._bytes > BODY_BYTES_MAX:
            self._refuse_size()
            return
        try:
            answer = self._door.begin(self._parts[0] if len(self._parts) == 1 else b"".join(self._parts))
        except Exception:  # Else the parser would take it for a mistake of the client's.
            logger.exception(_UNANSWERED)
            self._break_off()
            return
        if isinstance(answer, Unfinished):
            self._unfinished = answer
            self._door.signature_checks.check(answer.raw, partial(self._checked, answer))
        else:
            self._answer(answer)

    def _checked(self, unfinished: "Unfinished[bytes | None]", is_signed: bool) -> None:
        """Verdicts come several at a time: what follows from each is done first, and then all answers are written. So
        a client with several connections is woken once, and not by each."""
        if self._unfinished is not unfinished:
            return  # Finished before the check was, for the sake of the next request.
        self._finish(unfinished, is_signed)
        self.loop.call_soon(self._write)

    def refuse(self, reason: str) -> None:
        self._finish_now()
        super().refuse(reason)

    def _finish_now(self) -> None:
        """Do not wait for the check any longer."""
        if self._unfinished is not None:
            self._finish(self._unfinished, is_signed=False)
        self._write()

    def _finish(self, unfinished: "Unfinished[bytes | None]", is_signed: bool) -> None:
        """A client that has gone meanwhile changes nothing: what it sent was received."""
        self._unfinished = None
        try:
            answer = unfinished.finish(is_signed)
        except Exception:
            logger.exception(_UNANSWERED)
            self._break_off()
        else:
            self._unwritten = _whole(answer or b"")

    def _break_off(self) -> None:
        self.seal()
        self.transport.write(_BROKEN)
        self.transport.close()

    def _answer(self, answer: bytes) -> None:
        self._unwritten = _whole(answer)
        self._write()

    def _write(self) -> None:
        whole, self._unwritten = self._unwritten, b""
        if whole and not self.transport.is_closing():
            self.server_state.total_requests += 1
            self.transport.write(whole)
            self._idle_since = self.loop.time()
            if self._idle_timer is None:
                self._idle_timer = self.loop.call_later(self.timeout_keep_alive, self._end_if_idle)

    def _refuse_size(self) -> None:
        text = b"request body is larger than %d bytes\n" % BODY_BYTES_MAX
        head = b"HTTP/1.1 413 Content Too Large\r\ncontent-type: text/plain\r\ncontent-length: %d\r\n\r\n" % len(text)
        self.transport.write(head + text)

    # Idle connections end. One timer in so many seconds, where uvicorn has one for each request.

    def _unset_keepalive_if_required(self) -> None:
        """Something was received."""
        self._idle_since = None
        super()._unset_keepalive_if_required()

    def _end_if_idle(self) -> None:
        self._idle_timer = None
        if self._idle_since is None:
            return  # In the middle of a request, whose answer will set a timer.
        left = self._idle_since + self.timeout_keep_alive - self.loop.time()
        if left > 0:
            self._idle_timer = self.loop.call_later(left, self._end_if_idle)
        else:
            self.timeout_keep_alive_handler()

    def eof_received(self) -> None:
        """The client has said all it has to say, and may well be listening; the connection ends with this turn."""
        self._finish_now()
        super().eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """The server ends; what was received is answered first."""
        self._finish_now()
        super().shutdown()

    # A client that sends and does not read: no more is read of it until it does.

    def pause_writing(self) -> None:
        super().pause_writing()
        self.flow.pause_reading()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self.cycle is None or self.cycle.response_complete:
            self.flow.resume_reading()


def _whole(body: bytes) -> bytes:
    return b"%b%d%b%b" % (_HEAD, len(body), _HEAD_END, body)
