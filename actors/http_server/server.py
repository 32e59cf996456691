"""One HTTP/1.1 connection: from the parser to a door and back in one write, or by way of ASGI.

Implements: design, "Measured facts" (straight to replicas); threats 7, 8, 13, 36, 45, 46 and 48. A shell.
A POST that a door takes needs no ASGI scope, no events and no messages; by way of ASGI that was two fifths of a
replica's time. Everything else goes the way of ASGI, as uvicorn has it: other paths and methods, Expect, HTTP/1.0, and
a request that arrives while another of the same connection is being answered (answers keep the order of the requests).

A front (HAProxy) sends requests of many clients over one connection. If the front and this server disagree about the
end of one request, the rest of it is read as the next request, and another client gets its answer. So a request is
refused with 400, and its connection is closed, where the two could disagree:

* it asks for an upgrade: the parser ends such a request at its head, whatever length the head gives. Only a WebSocket
  handshake without a body, on a path that serves WebSocket, is let through. CONNECT is refused the same way;
* it has trailers: the parser reports them like headers, so credentials and addresses could be set after the head;
* it is of HTTP/1.1 and has no Host, or it has two (RFC 9112, section 3.2);
* its length is given twice, by Transfer-Encoding with anything but `chunked`, or in chunks under HTTP/1.0;
* its head, a run of trailers or of chunk extensions is longer than HEAD_BYTES_MAX.

Nothing that arrives after a refusal, or after an answer that ends the connection, reaches the parser. Clients that send
a request too slowly, take nothing of an answer, or ask nothing for long lose their connection.

Rests on the inside of uvicorn's HttpToolsProtocol; choice.py tries it out. Not here: which requests there are, and what
is answered.
"""

import asyncio
import logging
from typing import Any, cast

import httptools
from uvicorn.config import Config
from uvicorn.server import ServerState

from actors.http_server.answering import AnsweringHttp, whole_head
from actors.http_server.exchange import Doorway, HttpRequest, SocketDoor
from actors.http_server.responses import HeaderList, refusal

logger = logging.getLogger(__name__)

HEAD_BYTES_MAX = 16_384  # The front's buffer is as large, so it passes no longer head on.
_VERSIONS = ("1.1", "1.0")
_NOTHING, _HEAD, _BODY = 0, 1, 2  # The part of a request that is being read.


UPGRADE = "this path takes no upgrade of the connection"
HANDSHAKE = "a WebSocket handshake has one `Upgrade: websocket`, no Content-Length and no Expect"
TRAILERS = "trailers are not taken; send all headers before the body"
AMBIGUOUS = "the body's length is given in more than one way"
CODING = "the only transfer coding taken is `chunked`, and it needs HTTP/1.1"
VERSION = "the version of HTTP is not 1.1 or 1.0"
HOST = "a request has one Host header"
LONG_HEAD = f"the head or a part between chunks is longer than {HEAD_BYTES_MAX} bytes"
MALFORMED = "this is not a valid HTTP request"
SLOW = "the request took too long to arrive"


class FramingFault(Exception):
    """Raised in a callback of the parser, which ends the parsing. The text says why the request is refused."""


class HttpServer(AnsweringHttp):
    """uvicorn's protocol with a short way to a door, and with every request refused whose end is in doubt."""

    __slots__ = ("_data_bytes", "_handshake", "_keeps", "_stage", "_unproductive_bytes")

    def __init__(
        self,
        doorway: Doorway,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(doorway, config, server_state, app_state, _loop)
        self._stage = _NOTHING
        self._data_bytes = 0  # Bytes of the piece that the parser is reading.
        self._unproductive_bytes = 0  # Bytes that it read since the last piece of a body, or the start of a head.
        self._keeps = False  # Whether the connection outlives the ASGI request being read.
        self._handshake: HttpRequest | None = None  # A WebSocket handshake, which the door takes without ASGI.

    def connection_lost(self, exc: Exception | None) -> None:
        if self._arrival is not None:
            self._arrival.cancel()
        super().connection_lost(exc)

    # --- what the parser reports

    def data_received(self, data: bytes) -> None:
        self._idle_since = None
        if self._sealed:
            return
        self._data_bytes = size = len(data)
        self._unproductive_bytes += size
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._sealed = True
            if self._handshake is None:
                self.handle_websocket_upgrade()
            else:
                self._begin_upgrade(self._handshake, data[upgrade.args[0] :])
        except httptools.HttpParserError as error:
            self._parsing_ended(error)
        else:
            if self._unproductive_bytes > HEAD_BYTES_MAX:
                self.refuse(LONG_HEAD)
            elif self._stage and self._arrival is None and self._doorway.arrival_seconds_max:
                self._arrival = self.loop.call_later(self._doorway.arrival_seconds_max, self._too_slow)

    def _parsing_ended(self, error: httptools.HttpParserError) -> None:
        cause = error.__context__
        if not isinstance(error, httptools.HttpParserCallbackError) or cause is None:
            self.refuse(MALFORMED)
        elif isinstance(cause, FramingFault):
            self.refuse(str(cause))
        elif isinstance(cause, (httptools.HttpParserError, UnicodeDecodeError)):  # A malformed request target.
            self.refuse(MALFORMED)
        elif not self._sealed:  # A fault of this service, not of the client.
            logger.error("a request could not be read", exc_info=cause)
            self._sealed = True
            self.transport.close()

    def on_message_begin(self) -> None:
        """uvicorn makes an ASGI scope here; _by_asgi makes it for the requests that need one."""
        if self._sealed:
            raise FramingFault("the connection is closed")
        if self._answering is not None:
            self._finish_now()
        self.url = b""
        self.headers = []
        self._stage, self._reading = _HEAD, None
        self._unproductive_bytes = 0  # on_headers_complete counts the rest of this piece.

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._stage != _HEAD:
            raise FramingFault(TRAILERS)
        self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        self._stage = _BODY
        parser, cycle, headers = self.parser, self.cycle, self.headers
        version = parser.get_http_version()
        found = dict(headers)
        if (
            len(found) < len(headers)
            or b"host" not in found
            or b"transfer-encoding" in found
            or parser.should_upgrade()
            or self._data_bytes + self._unproductive_bytes > HEAD_BYTES_MAX
            or version != "1.1"
        ):  # Otherwise nothing is unusual.
            fault = self._framing_fault(version, found)
            if fault is not None:
                raise FramingFault(fault)
        self.expect_100_continue = b"expect" in found and found[b"expect"].lower() == b"100-continue"
        door = self._doorway.door
        if (
            door is not None
            and parser.get_method() == b"POST"
            and (cycle is None or cycle.response_complete)
            and not self.expect_100_continue
            and version == "1.1"
        ):
            request = HttpRequest(door, self.url, headers, found, self.client, parser.should_keep_alive())
            if door.takes(request):
                self.cycle = self._reading = request  # type: ignore[assignment]
                return
        if parser.should_upgrade() and hasattr(door, "upgrade"):
            if cycle is not None and not cycle.response_complete:
                raise FramingFault(UPGRADE)  # The connection is still needed for an answer.
            self._handshake = HttpRequest(cast(SocketDoor, door), self.url, headers, found, self.client, False)
            return
        self._reading = self._by_asgi()

    def _framing_fault(self, version: str, found: dict[bytes, bytes]) -> str | None:
        coding = found.get(b"transfer-encoding")
        if coding is not None and (b"content-length" in found or _occurs_twice(b"transfer-encoding", self.headers)):
            return AMBIGUOUS
        if len(found) < len(self.headers) and _occurs_twice(b"content-length", self.headers):
            return AMBIGUOUS
        if coding is not None and (version != "1.1" or coding.strip().lower() != b"chunked"):
            return CODING
        if version not in _VERSIONS:
            return VERSION
        if (version == "1.1" and b"host" not in found) or _occurs_twice(b"host", self.headers):
            return HOST
        if self.parser.should_upgrade():
            if not self._is_websocket(version, found):
                return UPGRADE
            if not _is_clear_handshake(found, self.headers):
                return HANDSHAKE
        if self._data_bytes + self._unproductive_bytes > HEAD_BYTES_MAX and self._head_bytes() > HEAD_BYTES_MAX:
            return LONG_HEAD
        return None

    def _is_websocket(self, version: str, found: dict[bytes, bytes]) -> bool:
        paths = self._doorway.websocket_paths
        return (
            self._should_upgrade()  # uvicorn's own check of the headers, by which it decides later.
            and self.parser.get_method() == b"GET"
            and version == "1.1"
            and b"transfer-encoding" not in found
            and (paths is None or self.url.partition(b"?")[0] in paths)
        )

    def _head_bytes(self) -> int:
        return len(self.url) + sum(len(name) + len(value) + len(b": \r\n") for name, value in self.headers)

    def _by_asgi(self) -> Any:
        url, headers, expects = self.url, self.headers, self.expect_100_continue
        # An absolute URL such as `http://host`; uvicorn wants a path.
        if url[:1] != b"/" and httptools.parse_url(url).path is None:
            raise FramingFault(MALFORMED)
        before = self.cycle
        super().on_message_begin()
        self.url, self.expect_100_continue = url, expects
        self.headers.extend(headers)  # The same list as in the scope.
        super().on_headers_complete()
        cycle = cast(Any, self.cycle)
        if cycle is before:
            return None  # A WebSocket handshake.
        # An answer that leaves before its request is whole ends the connection: the front must not give it to another
        # client while this server still waits for the rest, and may lose its patience.
        self._keeps, cycle.keep_alive = cycle.keep_alive, False
        return cycle

    def on_body(self, body: bytes) -> None:
        self._unproductive_bytes = 0
        request = self._reading
        if type(request) is not HttpRequest:
            super().on_body(body)
            return
        request.size += len(body)
        if request.size <= request.door.body_bytes_max:
            if request.body:
                request.pieces = request.pieces or [request.body]
                request.pieces.append(body)
            else:
                request.body = body
        elif not request.response_complete:
            request.body, request.pieces = b"", None
            self._answer(request, request.door.too_long(request))

    def on_message_complete(self) -> None:
        self._unproductive_bytes = self._stage = 0
        if self._arrival is not None:
            self._arrival.cancel()
            self._arrival = None
        request, self._reading = self._reading, None
        if type(request) is not HttpRequest:
            if request is not None and not request.response_started:
                request.keep_alive = self._keeps
            super().on_message_complete()
            return
        if request.response_complete:
            return
        if request.pieces:
            request.body = b"".join(request.pieces)
        self._answering = request
        try:
            self._carry_out(request, request.door.answer(request))
        except Exception:  # Otherwise the parser would report a fault of the client.
            logger.exception("a request could not be answered")
            self._break_off()

    # --- requests that take too long to arrive

    def _too_slow(self) -> None:
        self._arrival = None
        if self.transport.is_closing():
            return
        if not self._answers_something():
            self.transport.write(self._refusal(SLOW, 408))
        self._sealed = True
        self.transport.close()

    def _answers_something(self) -> bool:
        """Return whether an answer is running, or may be: another one must not be written into it."""
        cycle = cast(Any, self.cycle)
        if self._answering is not None or self.pipeline:
            return True
        return cycle is not None and not cycle.response_complete and bool(cycle.response_started)

    # --- refusals

    def refuse(self, reason: str) -> None:
        """Answer the complete requests, then this one with 400, and close. Repeating it changes nothing."""
        if self._sealed:
            return
        self._finish_now()
        self._sealed = True
        if self._arrival is not None:
            self._arrival.cancel()
        reading, self._reading = self._reading, None
        cycle = cast(Any, self.cycle)
        if reading is not None:
            if reading.response_complete:  # It was answered before it was read to its end.
                self.transport.close()
                return
            queued = [entry for entry in self.pipeline if entry[0] is reading]
            for entry in queued:
                self.pipeline.remove(entry)
            others_wait = bool(queued)
            if not queued and not self._let_go(reading):
                return
        else:
            others_wait = cycle is not None and not cycle.response_complete
        words = self._refusal(reason, 400)
        if others_wait:
            self._last_words = words
        else:
            self._close_with(words)

    def _let_go(self, reading: Any) -> bool:
        """Tell the application that this request will not be completed. False: its answer has begun."""
        if reading.response_started:
            self.transport.abort()
            return False
        reading.disconnected = True
        reading.message_event.set()
        return True

    def _refusal(self, reason: str, status: int) -> bytes:
        """Make the whole answer, which has no body for a HEAD."""
        door = self._doorway.door
        response = refusal(reason, status) if door is None else door.refused(reason, status)
        head = whole_head(status, response.headers)
        return head if self.parser.get_method() == b"HEAD" else head + response.body


def _is_clear_handshake(found: dict[bytes, bytes], headers: HeaderList) -> bool:
    return b"content-length" not in found and b"expect" not in found and not _occurs_twice(b"upgrade", headers)


def _occurs_twice(name: bytes, headers: HeaderList) -> bool:
    return sum(name == other for other, _ in headers) > 1
