"""One call at the server: what it has received, and what waits to be sent.

Implements: the gRPC protocol over HTTP/2, "Requests" and "Responses": headers, messages, the status in trailers, the
client's deadline. `ServerCall` offers handlers what `grpc.aio.ServicerContext` does, as far as they use it, so a
handler does not know which server it runs in.
A message is read when a handler asks for it, and only then the client may send more: so a call holds one message and
one window at most. What is written goes out with the next flush of the connection; from BATCH_BYTES on a writer waits
until all has gone.
Not here: frames and windows of the connection (connection.py), which handler runs (server.py).
"""

import asyncio
import base64
import binascii
import zlib
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Executor
from typing import Any, NoReturn
from urllib.parse import quote

import grpc

from actors.grpc_http2.frames import Message, MessageCutter, Outgoing, TooLong
from actors.grpc_http2.links import CallLink, Headers, joined

BATCH_BYTES = 16 * 1024
WINDOW_BYTES = 64 * 1024 - 1  # That a client may send before a handler reads.
_DAY_SECONDS = 86_400.0
_TIMEOUT_UNITS = {b"H": 3600.0, b"M": 60.0, b"S": 1.0, b"m": 1e-3, b"u": 1e-6, b"n": 1e-9}
_TIMEOUT_DIGITS_MAX = 8
_SMALL_BYTES = 16 * 1024  # Decompressed in 0.05 ms.
_ZLIB_BITS = {b"gzip": 31, b"deflate": 15}
ENCODINGS = b"identity, deflate, gzip"
_HEADERS = ((b":status", b"200"), (b"content-type", b"application/grpc"), (b"grpc-accept-encoding", ENCODINGS))
# Of the protocol, not of the call's metadata.
_RESERVED = frozenset((b"te", b"content-type", b"grpc-timeout", b"grpc-encoding", b"grpc-accept-encoding"))
_PLAIN = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) != "%")

Metadata = Sequence[tuple[str, str]]


class ServerCall:
    """Belongs to one connection and event loop. window_bytes: what the client lets us send of this call."""

    def __init__(
        self,
        link: "CallLink[ServerCall]",
        stream: int,
        headers: Headers,
        window_bytes: int,
        message_bytes_max: int,
        inflating: Executor,
    ) -> None:
        self._link, self.stream, self.window_bytes, self._inflating = link, stream, window_bytes, inflating
        self.path, self._metadata, seconds, self._encoding = _read(headers)
        self._has_length = any(name == b"content-length" for name, _ in headers)
        self._cutter = MessageCutter(message_bytes_max)
        self._message_bytes_max = message_bytes_max
        self._received: deque[tuple[bool, Message]] = deque()
        self.receivable_bytes = WINDOW_BYTES  # That the client may still send.
        self._ungranted_bytes = self.counted_by_h2 = 0
        self._has_all = False  # The client has closed its side.
        self._news = asyncio.Event()
        self._is_reading = False
        self.out = Outgoing()
        self._gone: asyncio.Future[None] | None = None
        self._has_sent_headers = False
        self._status: tuple[grpc.StatusCode, str] | None = None
        self._code: grpc.StatusCode = grpc.StatusCode.OK
        self._details = ""
        self._initial: Metadata = ()
        self._trailing: Metadata = ()
        self.is_over = False  # Bytes are neither sent nor received any more.
        self.task: asyncio.Task[None] | None = None
        loop = asyncio.get_running_loop()
        self._deadline = None if seconds is None else loop.time() + seconds
        timed = seconds is not None and seconds < _DAY_SECONDS
        self._timer = loop.call_later(seconds or 0.0, self._expire) if timed else None

    # --- what a handler asks for

    def invocation_metadata(self) -> Metadata:
        return self._metadata

    def peer(self) -> str:
        return self._link.peer

    def time_remaining(self) -> float | None:
        """Return the seconds until the client's deadline; None: it has set none."""
        return None if self._deadline is None else max(0.0, self._deadline - asyncio.get_running_loop().time())

    def set_code(self, code: grpc.StatusCode) -> None:
        self._code = code

    def code(self) -> grpc.StatusCode:
        return self._code

    def set_details(self, details: str) -> None:
        self._details = details

    def details(self) -> str:
        return self._details

    def set_trailing_metadata(self, metadata: Any) -> None:
        self._trailing = metadata

    async def send_initial_metadata(self, metadata: Metadata) -> None:
        """Send headers at once: some clients wait for them before they write."""
        if not self._has_sent_headers and not self.is_over:
            self._initial = metadata
            self._link.schedule(self)

    async def write(self, message: bytes) -> None:
        """Send a message, and return once the connection may take the next one. Raises AbortError at the end."""
        if self.is_over or self._status is not None:
            raise grpc.aio.AbortError("the call is over")
        self.out.put_message(message)
        if self.out.bytes < BATCH_BYTES:
            self._link.schedule(self)
            return
        self._link.send(self)
        if self.out.bytes:
            await self._all_gone()

    async def abort(self, code: grpc.StatusCode, details: str = "", trailing_metadata: Metadata = ()) -> NoReturn:
        """End the call with this status, behind what was written. Returns, with AbortError, when it has left."""
        self._trailing = trailing_metadata
        self.finish(code, details)
        while not self.is_over:
            await self._all_gone()
        raise grpc.aio.AbortError(details)

    def __aiter__(self) -> "ServerCall":
        return self

    async def __anext__(self) -> bytes:
        """Return the client's next message. Raises AbortError when the call breaks off meanwhile."""
        while not self._received:
            if self.is_over:
                raise grpc.aio.AbortError("the call is over")
            if self._has_all:
                raise StopAsyncIteration
            self._is_reading = True
            self._grant()
            self._news.clear()
            await self._news.wait()
            self._is_reading = False
        compressed, message = self._received.popleft()
        self._grant()
        whole = await joined(message)
        return await self._inflated(whole) if compressed else whole

    async def _inflated(self, message: bytes) -> bytes:
        """Decompress a message, a large one beside the loop: a few kilobytes may become megabytes."""
        most = self._message_bytes_max
        bits = _ZLIB_BITS.get(self._encoding)
        if bits is None:
            self._break_off(grpc.StatusCode.INTERNAL, "a message is compressed, and grpc-encoding does not say how")
        else:
            try:
                found = _inflate_small(message, bits, most)
                if found is None:
                    found = await asyncio.get_running_loop().run_in_executor(
                        self._inflating, _inflate, message, bits, most
                    )
                if len(found) <= most:
                    return found
                self._break_off(grpc.StatusCode.RESOURCE_EXHAUSTED, f"a message has more than {most} bytes")
            except zlib.error:
                self._break_off(grpc.StatusCode.INTERNAL, "a message cannot be decompressed")
        raise grpc.aio.AbortError("the call is over")

    async def _all_gone(self) -> None:
        if self._gone is None or self._gone.done():
            self._gone = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._gone)

    # --- what the connection tells

    @property
    def knows_encoding(self) -> bool:
        return self._encoding == b"identity" or self._encoding in _ZLIB_BITS

    @property
    def is_half_closed(self) -> bool:
        """Whether the client has closed its side."""
        return self._has_all

    @property
    def is_plain(self) -> bool:
        """h2 compares a content-length with the data that it has seen."""
        return not self._has_all and not self._has_length

    def take(self, data: bytes | memoryview, counted: int) -> None:
        """Take data of the client. counted: how much of its window, which `grant` gives back."""
        self._ungranted_bytes += counted
        if self._status is not None or self.is_over:
            return
        try:
            messages = self._cutter.take(data)
        except TooLong as error:
            self._break_off(grpc.StatusCode.RESOURCE_EXHAUSTED, str(error))
            return
        if messages:
            self._received += messages
            self._news.set()
        elif self._is_reading and not self._received:
            self._grant()  # The rest of the message that a handler waits for.

    def take_end(self) -> None:
        """Note that the client has closed its side."""
        self._has_all = True
        if not self._cutter.is_between:
            self._break_off(grpc.StatusCode.INTERNAL, "the last message is not whole")
        self._news.set()

    def sent(self) -> None:
        """Note that all that was written has gone."""
        if self._gone is not None and not self._gone.done():
            self._gone.set_result(None)

    def over(self) -> None:
        """Note that the call has ended: its status has gone, or the client or the connection has left."""
        self.is_over = True
        self.out.clear()
        self._received.clear()
        if self._timer is not None:
            self._timer.cancel()
        self._news.set()
        self.sent()

    def left(self, text: str) -> None:
        """End the handler as well: nobody waits for it."""
        del text
        self.over()
        if self.task is not None:
            self.task.cancel()

    def forget_task(self, _: "asyncio.Task[None]") -> None:
        """Forget the handler's task, which has ended: one that was cancelled refers to the call by its traceback."""
        self.task = None

    def start(self) -> Headers | None:
        """Return the headers that have to go before anything else; None: they have gone, or the status has them."""
        if self._has_sent_headers or (self._status is not None and not self.out.bytes):
            return None
        self._has_sent_headers = True
        return [*_HEADERS, *_encoded(self._initial)]

    def trailers(self) -> Headers | None:
        """Return the trailers, if the call is finished; without headers before them they are headers as well."""
        if self._status is None:
            return None
        code, text = self._status
        found = [] if self._has_sent_headers else list(_HEADERS)
        found.append((b"grpc-status", str(code.value[0]).encode()))
        if text:
            found.append((b"grpc-message", quote(text, safe=_PLAIN).encode()))
        return found + _encoded(self._trailing)

    # --- ends

    def finish(self, code: grpc.StatusCode | None = None, details: str | None = None) -> None:
        """End the call with this status, or with the one that was set, behind what was written."""
        if self._status is None and not self.is_over:
            self._status = code or self._code, self._details if details is None else details
            self._link.schedule(self)

    def _break_off(self, code: grpc.StatusCode, text: str) -> None:
        """End the call for a fault of the client's, and its handler with it."""
        self.finish(code, text)
        self._news.set()
        if self.task is not None:
            self.task.cancel()

    def _expire(self) -> None:
        """End the call because the client's deadline is over: it waits no longer, as its own clock says."""
        if self.is_over:
            return
        if self._status is None and not self.out.bytes:
            self._break_off(grpc.StatusCode.DEADLINE_EXCEEDED, "the deadline is over")
        else:
            self._link.reset(self)
            self.left("the deadline is over")

    def _grant(self) -> None:
        size = self._ungranted_bytes
        if size > WINDOW_BYTES // 2 and not self._received:
            self._ungranted_bytes = 0
            self.receivable_bytes += size
            self._link.grant(self, size)


def _read(headers: Headers) -> tuple[str, Metadata, float | None, bytes]:
    """Return the path, the metadata, the seconds until the deadline, and the encoding of messages."""
    path, seconds, encoding = "", None, b"identity"
    metadata: list[tuple[str, Any]] = []
    for name, value in headers:
        if name == b":path":
            path = value.decode("latin-1")
        elif name == b"grpc-timeout":
            seconds = _seconds(value)
        elif name == b"grpc-encoding":
            encoding = bytes(value)
        elif name not in _RESERVED and not name.startswith(b":"):
            metadata.append((name.decode("latin-1"), _value(name, value)))
    return path, tuple(metadata), seconds, encoding


def _encoded(metadata: Metadata) -> Headers:
    return [(name.encode(), value.encode()) for name, value in metadata]


def _value(name: bytes, value: bytes) -> Any:
    if not name.endswith(b"-bin"):
        return value.decode("latin-1")
    try:
        return base64.b64decode(value + b"=" * (-len(value) % 4), validate=True)
    except binascii.Error:
        return bytes(value)


def _seconds(value: bytes) -> float | None:
    """Return the seconds of a grpc-timeout; None for what is none."""
    digits, unit = value[:-1], _TIMEOUT_UNITS.get(bytes(value[-1:]))
    if unit is None or not digits.isdigit() or len(digits) > _TIMEOUT_DIGITS_MAX:
        return None
    return int(digits) * unit


def _inflate_small(message: bytes, bits: int, bytes_max: int) -> bytes | None:
    """Return a message that is small either way; None: it is not. Raises zlib.error."""
    if len(message) > _SMALL_BYTES:
        return None
    worker = zlib.decompressobj(bits)
    found = worker.decompress(message, min(_SMALL_BYTES, bytes_max + 1))
    return found if worker.eof else None


def _inflate(message: bytes, bits: int, bytes_max: int) -> bytes:
    """Return at most one byte more than is allowed. Raises zlib.error."""
    worker = zlib.decompressobj(bits)
    found = worker.decompress(message, bytes_max + 1)
    if len(found) <= bytes_max and not worker.eof:
        raise zlib.error("the end is missing")
    return found
