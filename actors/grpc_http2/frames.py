"""Frames of HTTP/2 with plain data, and the messages of gRPC in them. Pure.

Implements: RFC 9113, sections 4.1 (a frame's head), 6.1 (DATA), 6.5 (SETTINGS) and 6.9 (WINDOW_UPDATE); the gRPC
protocol over HTTP/2 (github.com/grpc/grpc, doc/PROTOCOL-HTTP2.md), "Length-Prefixed-Message".
The library h2 takes 49 µs for a frame of data, so those frames and their windows are cut and made here; it does the
rest: settings, headers, pings, resets.
Not here: who reads and writes them (connection.py).
"""

import struct
from collections import deque
from collections.abc import Iterable, Iterator

HEAD = struct.Struct(">HBBBI")  # Length in two parts, kind, flags, stream.
DATA, SETTINGS, GOAWAY, WINDOW_UPDATE = 0, 4, 7, 8
END_STREAM = 1
GREETING_BYTES = 24  # Bytes that a client sends first (RFC 9113, 3.4).
PREFIX = struct.Struct(">BI")  # Of each message: whether it is compressed, and its length.
LARGE_BYTES = 1 << 20
WINDOW_AT_FIRST = 65_535
WINDOW_MAX = (1 << 31) - 1
GROWN = struct.Struct(">I")  # The payload of WINDOW_UPDATE.
_SETTING = struct.Struct(">HI")  # Of the payload of SETTINGS.
SETTING_BYTES = _SETTING.size
_KNOWN_SETTINGS = frozenset((1, 2, 3, 4, 5, 6, 8))  # That h2 acts upon.
_TABLE_SIZE, _TABLE_BYTES_MAX = 1, 4_096  # HPACK's default. h2 searches a table from its begin to its end.
LAST_STREAM = struct.Struct(">II")  # The payload of GOAWAY begins with it, and with a reason.
_WINDOW_UPDATE_FRAME = struct.Struct(">HBBBII")
_GOAWAY_FRAME = struct.Struct(">HBBBIII")


class TooLong(Exception):
    """A message is longer than is allowed; the text has both lengths."""


def window_update(stream: int, grown: int) -> bytes:
    return _WINDOW_UPDATE_FRAME.pack(0, 4, WINDOW_UPDATE, 0, stream, grown)


def goaway(last_stream: int) -> bytes:
    """Make the frame that asks the peer to begin no more calls on the connection; those up to this one go on."""
    return _GOAWAY_FRAME.pack(0, 8, GOAWAY, 0, 0, last_stream, 0)


def data_head(length: int, stream: int) -> bytes:
    return HEAD.pack(length >> 8, length & 0xFF, DATA, 0, stream)


def known_settings(flags: int, payload: bytes) -> bytes:
    """Return the frame of the settings that h2 acts upon. It would keep each other one, in about 800 bytes.

    The table of headers that we may use stays small: a peer that allows 4 GiB would make each answer slower.
    """
    found: dict[int, int] = {}
    for code, value in _SETTING.iter_unpack(payload):
        if code in _KNOWN_SETTINGS:
            found[code] = min(value, _TABLE_BYTES_MAX) if code == _TABLE_SIZE else value
    told = b"".join(_SETTING.pack(code, value) for code, value in found.items())
    return HEAD.pack(0, len(told), SETTINGS, flags, 0) + told


Message = bytes | list[bytes]  # In pieces where it is large; a thread joins them.


class MessageCutter:
    """Cuts the messages of one call out of its data."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._body = bytearray()
        self._wanted_bytes = PREFIX.size  # With fewer bytes the body has no whole message.
        self._pieces: list[bytes] = []  # Of a large message that is not whole.
        self._missing_bytes = 0  # Of it.
        self._is_compressed = False  # It.

    @property
    def is_between(self) -> bool:
        """Whether no message has begun."""
        return not self._body and not self._missing_bytes

    def take(self, data: bytes | memoryview) -> list[tuple[bool, Message]]:
        """Return the messages that are whole now, each with whether it is compressed. Raises TooLong."""
        messages: list[tuple[bool, Message]] = []
        if self._missing_bytes:
            if len(data) < self._missing_bytes:
                self._missing_bytes -= len(data)
                self._pieces.append(bytes(data))
                return messages
            self._pieces.append(bytes(data[: self._missing_bytes]))
            messages.append((self._is_compressed, self._pieces))
            data = data[self._missing_bytes :]
            self._pieces, self._missing_bytes = [], 0
        body = self._body
        body += data
        end = len(body)
        if end < self._wanted_bytes:
            return messages
        at, self._wanted_bytes = 0, PREFIX.size
        with memoryview(body) as view:
            while end - at >= PREFIX.size:
                compressed, length = PREFIX.unpack_from(view, at)
                if length > self._bytes_max:
                    raise TooLong(f"a message has {length} bytes, more than {self._bytes_max}")
                begins = at + PREFIX.size
                if end - begins < length:
                    if length < LARGE_BYTES:
                        self._wanted_bytes = PREFIX.size + length
                    else:
                        self._pieces, self._missing_bytes = [bytes(view[begins:])], length - (end - begins)
                        self._is_compressed = bool(compressed)
                        at = end
                    break
                at = begins + length
                messages.append((bool(compressed), bytes(view[begins:at])))
        del body[:at]
        return messages


class Outgoing:
    """Bytes of one call that wait for the peer's window, in pieces that are not copied before they are sent."""

    def __init__(self) -> None:
        self._pieces: deque[bytes | memoryview] = deque()
        self.bytes = 0

    def put_message(self, message: bytes) -> None:
        self._pieces.append(PREFIX.pack(0, len(message)))
        self._pieces.append(message)
        self.bytes += PREFIX.size + len(message)

    def clear(self) -> None:
        self._pieces.clear()
        self.bytes = 0

    def frames(self, stream: int, bytes_max: int, frame_bytes_max: int) -> Iterator[bytes | memoryview]:
        """Take so many bytes out, as the parts of frames of DATA: heads and pieces in turn."""
        left = min(bytes_max, self.bytes)
        self.bytes -= left
        while left > 0:
            size = min(left, frame_bytes_max)
            left -= size
            yield data_head(size, stream)
            yield from self._cut(size)

    def _cut(self, size: int) -> Iterable[bytes | memoryview]:
        pieces = self._pieces
        while size:
            piece = pieces[0]
            length = len(piece)
            if length <= size:
                pieces.popleft()
                size -= length
                yield piece
            else:
                view = memoryview(piece)
                pieces[0] = view[size:]
                yield view[:size]
                return
