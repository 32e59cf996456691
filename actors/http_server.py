"""An HTTP connection that closes as soon as it is unclear where a request ends.

Implements: hostile inputs 7, 45 and 46. A front (HAProxy) sends requests of many clients over one connection. If the
front and this server disagree about the end of one request, the rest of it is read as the next request, and another
client gets its answer. So a request is refused with 400, and its connection is closed, where the two could disagree:

* it asks for an upgrade: uvicorn's parser ends such a request at its head, whatever length the head gives. Only a
  WebSocket handshake without a body, on a path that serves WebSocket, is let through. CONNECT is refused the same way;
* it has trailers: the parser reports them like headers, so credentials and addresses could be set after the head;
* its length is given twice, by Transfer-Encoding with anything but `chunked`, or in chunks under HTTP/1.0;
* its head, a run of trailers or of chunk extensions is longer than HEAD_BYTES_MAX.

Nothing that arrives after a refusal, or after an answer that ends the connection, reaches the parser.

Rests on the inside of uvicorn's HttpToolsProtocol; its version is fixed in constraints.txt. Not here: which requests
there are, and how they are answered.
"""

import asyncio
import logging
from typing import Any, cast

import httptools
import orjson
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

logger = logging.getLogger(__name__)

HEAD_BYTES_MAX = 16_384  # The front's buffer is as large, so it lets no longer head through.

_FRAMING = frozenset((b"content-length", b"transfer-encoding", b"expect"))
_VERSIONS = ("1.1", "1.0")

UPGRADE = "this path takes no upgrade of the connection"
TRAILERS = "trailers are not taken; send all headers before the body"
AMBIGUOUS = "the body's length is given in more than one way"
CODING = "the only transfer coding taken is `chunked`, and it needs HTTP/1.1"
VERSION = "the version of HTTP is not 1.1 or 1.0"
LONG_HEAD = f"the head or a part between chunks is longer than {HEAD_BYTES_MAX} bytes"
MALFORMED = "this is not a valid HTTP request"


class FramingFault(Exception):
    """Raised in a callback of the parser, which ends the parsing. The text says why the request is refused."""


class SealedHttp(HttpToolsProtocol):
    """uvicorn's protocol, with every request refused whose end is in doubt."""

    websocket_paths: frozenset[bytes] | None = frozenset()  # Where WebSocket is served; None: on every path.

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._sealed = False  # No further byte reaches the parser.
        self._in_head = True
        self._lengths = 0  # How often the head says how long the body is.
        self._has_body = False
        self._is_chunked = False
        self._is_otherwise_coded = False
        self._reading: Any = None  # The request whose body is being read: a cycle of uvicorn, or its stand-in.
        self._data_bytes = 0  # Of what the parser is reading now.
        self._unproductive_bytes = 0  # Of what it read since the last piece of a body, or since a head began.
        self._last_words: bytes | None = None  # A refusal that waits until earlier requests are answered.

    # --- what the parser reports

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        if self._sealed:
            return
        self._data_bytes = len(data)
        self._unproductive_bytes += self._data_bytes
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._sealed = True
            self.handle_websocket_upgrade()
        except httptools.HttpParserError as error:
            self._parsing_ended(error)
        else:
            if self._unproductive_bytes > HEAD_BYTES_MAX:
                self.refuse(LONG_HEAD)

    def _parsing_ended(self, error: httptools.HttpParserError) -> None:
        cause = error.__context__
        if not isinstance(error, httptools.HttpParserCallbackError) or cause is None:
            self.refuse(MALFORMED)
        elif isinstance(cause, FramingFault):
            self.refuse(str(cause))
        elif isinstance(cause, (httptools.HttpParserError, UnicodeDecodeError)):  # Of the request target.
            self.refuse(MALFORMED)
        elif not self._sealed:  # A mistake of ours, and not the client's.
            logger.error("a request could not be read", exc_info=cause)
            self._sealed = True
            self.transport.close()

    def on_message_begin(self) -> None:
        """uvicorn makes an ASGI scope here; by_asgi makes it for the requests that need one."""
        if self._sealed:
            raise FramingFault("the connection is closed")
        self.url = b""
        self.headers = []
        self.expect_100_continue = False
        self._in_head, self._reading = True, None
        self._lengths, self._has_body, self._is_chunked, self._is_otherwise_coded = 0, False, False, False
        self._unproductive_bytes = 0  # The rest of this piece is counted in on_headers_complete.

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._in_head:
            raise FramingFault(TRAILERS)
        name = name.lower()
        if name in _FRAMING:
            self._note(name, value)
        self.headers.append((name, value))

    def _note(self, name: bytes, value: bytes) -> None:
        if name == b"content-length":
            self._lengths += 1
            self._has_body = value != b"0"
        elif name == b"transfer-encoding":
            self._lengths += 1
            self._has_body = self._is_chunked = True
            self._is_otherwise_coded = value.strip().lower() != b"chunked"
        elif value.lower() == b"100-continue":
            self.expect_100_continue = True

    def on_headers_complete(self) -> None:
        self._in_head = False
        fault = self._framing_fault()
        if fault is not None:
            raise FramingFault(fault)
        self._reading = self.begin_request()

    def _framing_fault(self) -> str | None:
        parser = self.parser
        version = parser.get_http_version()
        if self._lengths > 1:
            return AMBIGUOUS
        if self._is_chunked and (self._is_otherwise_coded or version != "1.1"):
            return CODING
        if version not in _VERSIONS:
            return VERSION
        if parser.should_upgrade() and not self._is_websocket(version):
            return UPGRADE
        if self._data_bytes + self._unproductive_bytes > HEAD_BYTES_MAX and self._head_bytes() > HEAD_BYTES_MAX:
            return LONG_HEAD
        return None

    def _is_websocket(self, version: str) -> bool:
        paths = self.websocket_paths
        return (
            self._should_upgrade()  # uvicorn's own look at the headers; it decides for itself later, by the same.
            and self.parser.get_method() == b"GET"
            and version == "1.1"
            and not self._has_body
            and (paths is None or self.url.partition(b"?")[0] in paths)
        )

    def _head_bytes(self) -> int:
        return len(self.url) + sum(len(name) + len(value) + len(b": \r\n") for name, value in self.headers)

    def begin_request(self) -> Any:
        """The head is complete and sound. Returns what must be told when the body turns out to be unsound: uvicorn's
        cycle, or an object like it; None where nothing has begun."""
        return self.by_asgi()

    def by_asgi(self) -> Any:
        url, headers, expects = self.url, self.headers, self.expect_100_continue
        super().on_message_begin()
        self.url, self.expect_100_continue = url, expects
        self.headers.extend(headers)  # The list that is in the scope.
        super().on_headers_complete()
        return self.cycle

    def on_body(self, body: bytes) -> None:
        self._unproductive_bytes = 0
        self.body_received(body)

    def body_received(self, body: bytes) -> None:
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._unproductive_bytes = 0
        self._reading = None
        self.request_complete()

    def request_complete(self) -> None:
        super().on_message_complete()

    # --- refusals

    def seal(self) -> None:
        """Not one more byte is parsed, of those at hand neither."""
        self._sealed = True

    def refuse(self, reason: str) -> None:
        """Answer the requests that came whole, then this one with 400, and close. A second call changes nothing."""
        if self._sealed:
            return
        self._sealed = True
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
        said = self._said(reason)
        if others_wait:
            self._last_words = said
        else:
            self._close_with(said)

    def _let_go(self, reading: Any) -> bool:
        """Tell the application that this request will not come whole. False: its answer has begun."""
        if getattr(reading, "response_started", False):
            self.transport.abort()
            return False
        reading.disconnected = True
        reading.message_event.set()
        return True

    def _said(self, reason: str) -> bytes:
        return self.refusal(reason, is_head=self.parser.get_method() == b"HEAD")

    def refusal(self, reason: str, is_head: bool) -> bytes:
        """The whole answer. is_head: it may have no body."""
        body = orjson.dumps({"error": {"code": "INVALID_REQUEST", "message": reason}})
        head = b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\nconnection: close\r\n"
        return b"%bcontent-length: %d\r\n\r\n%b" % (head, len(body), b"" if is_head else body)

    def say_last_words(self) -> bool:
        """To be called when an answer is complete and no other request waits. Whether that ended the connection."""
        said, self._last_words = self._last_words, None
        if said is None:
            return False
        self._close_with(said)
        return True

    def _close_with(self, said: bytes) -> None:
        if not self.transport.is_closing():
            self.transport.write(said)
            self.transport.close()

    def on_response_complete(self) -> None:
        waiting = bool(self.pipeline)
        super().on_response_complete()
        if self.transport.is_closing():
            self._sealed = True
        elif not waiting:
            self.say_last_words()
