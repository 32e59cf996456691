"""One gRPC call with messages in both ways, for a client that reads very many small messages.

Implements: the gRPC protocol over HTTP/2 (github.com/grpc/grpc, doc/PROTOCOL-HTTP2.md), as far as one call needs it.
The library grpcio takes 150 µs of processor for each message that it reads in Python, nearly all of it for a switch
between threads, whatever is done with the message; so several classifiers that each read the whole stream had little to
share. Here all messages that have come are read together.

h2 knows HTTP/2: settings, headers, pings, resets. Of its frames only those with plain data of the call, nearly all that
come, are cut here, as h2 takes 49 µs for one; flow control of what is received is therefore here, too.
Not here: what the messages are (geyser_source.py).
"""

import asyncio
import ssl
import struct
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

import grpc
import h2.connection
import h2.events
import h2.exceptions
import h2.settings
from h2.config import H2Configuration

_FRAME = struct.Struct(">HBBBI")  # Length in two parts, kind, flags, stream.
_DATA, _END_STREAM = 0, 1
_WINDOW_UPDATE = struct.Struct(">HBBBII")
_WINDOW_UPDATE_KIND = 8
_PREFIX = struct.Struct(">BI")  # Of each message: whether it is compressed, and its length.
_STREAM = 1  # The first and only one of the connection.
# Bytes that the peer may send before they are read. A message may be longer: its part that has come counts as read.
WINDOW_BYTES = 8 << 20
_GRANTED_BYTES_MIN = WINDOW_BYTES // 4
_WINDOW_AT_FIRST = 65_535
_FRAME_BYTES_MAX = 1 << 16
_CONNECT_SECONDS = 10.0
_CODES = {code.value[0]: code for code in grpc.StatusCode}


class CallFailed(Exception):
    """The call ended with an error of the peer, or broke. code: from the peer, else UNAVAILABLE."""

    def __init__(self, code: grpc.StatusCode, text: str) -> None:
        super().__init__(f"{code.name}: {text}")
        self.code, self.text = code, text


class GrpcStream(asyncio.Protocol):
    """One call, used by one event loop. Made by `open_stream`."""

    def __init__(self, headers: list[tuple[str, str]], message_bytes_max: int) -> None:
        self._headers, self._message_bytes_max = headers, message_bytes_max
        self._http = h2.connection.H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
        wanted = h2.settings.SettingCodes
        self._http.local_settings = h2.settings.Settings(
            client=True,
            initial_values={
                wanted.ENABLE_PUSH: 0,
                wanted.INITIAL_WINDOW_SIZE: WINDOW_BYTES,
                wanted.MAX_FRAME_SIZE: _FRAME_BYTES_MAX,
                wanted.MAX_CONCURRENT_STREAMS: 1,
            },
        )
        self._transport: Any = None
        self._frame, self._body = (
            b"",
            bytearray(),
        )  # An incomplete frame, and incomplete messages.
        self._wanted_bytes = 0  # With fewer bytes the body has no whole message.
        self._messages: list[bytes] = []
        self._unread_bytes = 0  # Received bytes not yet granted to the peer again.
        self._outgoing = bytearray()
        self._end: CallFailed | None = None
        self._news = asyncio.Event()

    # --- what the caller does

    def write(self, message: bytes) -> None:
        """Send a message. Does nothing once the call has ended: `read` tells how."""
        self._outgoing += _PREFIX.pack(0, len(message)) + message
        self._flush()

    async def read(self) -> list[bytes]:
        """Return all received messages, after waiting for the first. Raises CallFailed at the end, however it ended."""
        while not self._messages:
            if self._end is not None:
                raise self._end
            self._grant()
            self._news.clear()
            await self._news.wait()
        found, self._messages = self._messages, []
        self._grant()
        return found

    def fail(self, text: str) -> None:
        """End the call from this side; messages that have come can still be read."""
        self._finish(grpc.StatusCode.CANCELLED, text)

    def close(self) -> None:
        self._messages = []
        self.fail("closed")

    # --- what the transport calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._http.initiate_connection()
        self._http.send_headers(_STREAM, self._headers)
        more = WINDOW_BYTES - _WINDOW_AT_FIRST
        transport.write(self._http.data_to_send() + _window_update(0, more))  # type: ignore[attr-defined]

    def connection_lost(self, error: Exception | None) -> None:
        self._finish(grpc.StatusCode.UNAVAILABLE, "the connection was lost" if error is None else type(error).__name__)

    def data_received(self, data: bytes) -> None:
        if self._end is not None:
            return
        try:
            self._take_frames(self._frame + data if self._frame else data)
        except h2.exceptions.H2Error as error:
            self._finish(grpc.StatusCode.INTERNAL, f"{type(error).__name__}: {error}")

    # --- frames

    def _take_frames(self, data: bytes) -> None:
        at, end = 0, len(data)
        while end - at >= _FRAME.size:
            high, low, kind, flags, stream = _FRAME.unpack_from(data, at)
            length = high << 8 | low
            if length > _FRAME_BYTES_MAX:
                raise h2.exceptions.FrameTooLargeError(f"a frame of {length} bytes")
            after = at + _FRAME.size + length
            if after > end:
                break
            if kind == _DATA and stream == _STREAM and flags == 0:
                self._body += data[at + _FRAME.size : after]
                self._unread_bytes += length
            else:
                self._take_messages()  # The frame may end the call.
                self._take_events(self._http.receive_data(data[at:after]))
                if self._end is not None:
                    return
            at = after
        self._frame = data[at:]
        self._take_messages()
        if answer := self._http.data_to_send():
            self._transport.write(answer)

    def _take_events(self, events: list[h2.events.Event]) -> None:
        for event in events:
            match event:
                case h2.events.DataReceived():
                    self._unread_bytes += event.flow_controlled_length or 0
                    self._body += event.data or b""
                    self._take_messages()
                case h2.events.ResponseReceived() | h2.events.TrailersReceived():
                    self._take_headers({str(name): str(value) for name, value in event.headers or ()})
                case h2.events.StreamEnded():
                    self._finish(grpc.StatusCode.UNKNOWN, "the peer ended the call without a status")
                case h2.events.StreamReset():
                    self._finish(grpc.StatusCode.UNAVAILABLE, f"the peer reset the call: {event.error_code!r}")
                case h2.events.ConnectionTerminated():
                    self._finish(grpc.StatusCode.UNAVAILABLE, "the peer closes the connection")
                case h2.events.WindowUpdated() | h2.events.RemoteSettingsChanged():
                    self._flush()

    def _take_headers(self, headers: Mapping[str, str]) -> None:
        if headers.get(":status", "200") != "200":
            self._finish(grpc.StatusCode.UNAVAILABLE, f"HTTP status {headers[':status']}")
        elif "grpc-status" in headers:
            text = headers["grpc-status"]
            code = _CODES.get(int(text) if text.isdecimal() else -1, grpc.StatusCode.UNKNOWN)
            self._finish(code, unquote(headers.get("grpc-message", "")))

    def _take_messages(self) -> None:
        body, at, end = self._body, 0, len(self._body)
        if end < self._wanted_bytes:  # Part of a long message, which is cut out once it is complete.
            if self._unread_bytes > _GRANTED_BYTES_MIN:
                self._news.set()  # Wakes a waiting `read`, which lets the rest come.
            return
        self._wanted_bytes = _PREFIX.size
        with memoryview(body) as view:
            while end - at >= _PREFIX.size:
                compressed, length = _PREFIX.unpack_from(view, at)
                if compressed or length > self._message_bytes_max:
                    text = "a message is compressed" if compressed else f"a message has {length} bytes"
                    self._finish(grpc.StatusCode.RESOURCE_EXHAUSTED, text)
                    break
                if end - at - _PREFIX.size < length:
                    self._wanted_bytes = _PREFIX.size + length
                    break
                at += _PREFIX.size
                self._messages.append(bytes(view[at : at + length]))
                at += length
        del body[:at]
        if self._messages:
            self._news.set()

    def _grant(self) -> None:
        """Let the peer send as much again as was read, once that is a good part of the window."""
        granted = self._unread_bytes
        if self._end is None and granted > _GRANTED_BYTES_MIN:
            self._unread_bytes = 0
            self._transport.write(_window_update(0, granted) + _window_update(_STREAM, granted))

    def _flush(self) -> None:
        """Send what the peer's window allows."""
        while self._end is None and self._outgoing:
            room = min(self._http.local_flow_control_window(_STREAM), self._http.max_outbound_frame_size)
            if room <= 0:
                break
            self._http.send_data(_STREAM, bytes(self._outgoing[:room]))
            del self._outgoing[:room]
        if self._end is None:
            self._transport.write(self._http.data_to_send())

    def _finish(self, code: grpc.StatusCode, text: str) -> None:
        if self._end is None:
            self._end = CallFailed(code, text)
            self._news.set()
            if self._transport is not None:
                self._transport.close()


async def open_stream(url: str, path: str, metadata: Mapping[str, str], message_bytes_max: int) -> GrpcStream:
    """Connect, and begin a call of this method. Raises CallFailed where nobody answers.

    url: http:// for an endpoint without TLS, https:// for one with it, which the machine's certificates must prove.
    """
    parts = urlsplit(url)
    secure = parts.scheme == "https"
    headers = [
        *((":method", "POST"), (":scheme", parts.scheme), (":path", path), (":authority", parts.netloc)),
        *(("te", "trailers"), ("content-type", "application/grpc"), ("grpc-accept-encoding", "identity")),
        *metadata.items(),
    ]
    context = ssl.create_default_context() if secure else None
    if context is not None:
        context.set_alpn_protocols(["h2"])
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            _, stream = await asyncio.get_running_loop().create_connection(
                lambda: GrpcStream(headers, message_bytes_max),
                parts.hostname or "",
                parts.port or (443 if secure else 80),
                ssl=context,
            )
    except (OSError, TimeoutError) as error:
        raise CallFailed(grpc.StatusCode.UNAVAILABLE, f"no connection: {type(error).__name__}") from error
    return stream


def _window_update(stream: int, grown: int) -> bytes:
    return _WINDOW_UPDATE.pack(0, 4, _WINDOW_UPDATE_KIND, 0, stream, grown)
