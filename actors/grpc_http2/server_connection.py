"""A client's connection at the server of gRPC: what a client begins, and where it is refused.

Implements: the gRPC protocol over HTTP/2, "Requests": POST and a content type of gRPC. A client may send a small window
of each call before its handler reads, and CALLS_MAX calls at once.
"""

from collections.abc import Callable
from concurrent.futures import Executor

import h2.errors
import h2.events
import h2.settings
from h2.config import H2Configuration

from actors.grpc_http2.connection import Connection, Settings
from actors.grpc_http2.links import Headers
from actors.grpc_http2.server_call import WINDOW_BYTES, ServerCall
from actors.grpc_http2.turns import Turns

CALLS_MAX = 1_000
_FRAME_BYTES_MAX = 16_384
_HEADERS_BYTES_MAX = 24 * 1024  # HAProxy passes on 15 kB in 101 headers, each of which counts 32 bytes more.
HEADERS_MAX = 128
_BYTES_OF_A_UNIT = 16  # Of messages without content, each of five bytes.
_CODE = h2.settings.SettingCodes
_SETTINGS: Settings = {
    _CODE.INITIAL_WINDOW_SIZE: WINDOW_BYTES,
    _CODE.MAX_FRAME_SIZE: _FRAME_BYTES_MAX,
    _CODE.MAX_CONCURRENT_STREAMS: CALLS_MAX,
    _CODE.MAX_HEADER_LIST_SIZE: _HEADERS_BYTES_MAX,
}
_CONFIG = H2Configuration(
    client_side=False, header_encoding=False, validate_outbound_headers=False, normalize_outbound_headers=False
)
_METHOD_NOT_ALLOWED: Headers = [(b":status", b"405"), (b"content-length", b"0")]
_TOO_MANY_HEADERS: Headers = [(b":status", b"431"), (b"content-length", b"0")]
_UNSUPPORTED_TYPE: Headers = [(b":status", b"415"), (b"content-length", b"0")]

Begin = Callable[[ServerCall], None]
Closed = Callable[["ServerConnection"], None]


class ServerConnection(Connection[ServerCall]):
    """begin: starts the handler of a call. closed: called once, at the end. turns, inflating: of all connections of the
    server; inflating decompresses what its calls receive."""

    def __init__(self, begin: Begin, closed: Closed, message_bytes_max: int, turns: Turns, inflating: Executor) -> None:
        super().__init__(_CONFIG, dict(_SETTINGS), _BYTES_OF_A_UNIT, turns)
        self._http.decoder.max_header_list_size = _HEADERS_BYTES_MAX  # h2 itself sets it for changes alone.
        self._begin, self._tell_closed, self._inflating = begin, closed, inflating
        self._message_bytes_max = message_bytes_max

    def closed(self) -> None:
        self._tell_closed(self)

    def take_event(self, event: h2.events.Event) -> None:
        if isinstance(event, h2.events.RequestReceived):
            self._take_call(event.stream_id, event.headers)

    def _take_call(self, stream: int, headers: Headers) -> None:
        self._last_stream = stream
        if self._is_leaving:
            self._http.reset_stream(stream, h2.errors.ErrorCodes.REFUSED_STREAM)
            return
        told = dict(headers)
        refusal = None if told.get(b":method") == b"POST" else _METHOD_NOT_ALLOWED
        kind, _, _ = told.get(b"content-type", b"").partition(b";")
        if kind != b"application/grpc" and not kind.startswith(b"application/grpc+"):
            refusal = refusal or _UNSUPPORTED_TYPE
        if len(headers) > HEADERS_MAX:
            refusal = _TOO_MANY_HEADERS
        if refusal is not None:
            self._http.send_headers(stream, refusal, end_stream=True)
            self._http.reset_stream(stream, h2.errors.ErrorCodes.NO_ERROR)
            return
        call = ServerCall(self, stream, headers, self._stream_window_bytes, self._message_bytes_max, self._inflating)
        self._calls[stream] = call
        self._begin(call)
