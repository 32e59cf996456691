"""One call at a client: many small messages that come, read as many at once as have come.

Implements: the gRPC protocol over HTTP/2, "Responses": headers, messages, the status in trailers.
grpcio takes 40 to 150 µs of processor for each message that it reads in Python, nearly all of it for a switch between
threads. Here `read` gives all messages that have come.
When full: the peer may send window_bytes before they are read, and then no more. A message may be longer: its part that
has come counts as read while a reader waits for the rest.
Not here: the connection (client.py), what the messages are.
"""

import asyncio
from collections.abc import Mapping
from urllib.parse import unquote

import grpc

from actors.grpc_http2.frames import Message, MessageCutter, Outgoing, TooLong
from actors.grpc_http2.links import CallLink, Headers, joined

_CODES = {str(code.value[0]): code for code in grpc.StatusCode}
# Of a peer that is none of gRPC: github.com/grpc/grpc, doc/http-grpc-status-mapping.md. Others are UNKNOWN.
_CODES_OF_HTTP = {
    "400": grpc.StatusCode.INTERNAL,
    "401": grpc.StatusCode.UNAUTHENTICATED,
    "403": grpc.StatusCode.PERMISSION_DENIED,
    "404": grpc.StatusCode.UNIMPLEMENTED,
    **dict.fromkeys(("429", "502", "503", "504"), grpc.StatusCode.UNAVAILABLE),
}


class CallFailed(Exception):
    """The call ended with an error of the peer, or broke. code: from the peer, else UNAVAILABLE."""

    def __init__(self, code: grpc.StatusCode, text: str) -> None:
        super().__init__(f"{code.name}: {text}")
        self.code, self.text = code, text


class ClientCall:
    """Belongs to one connection and event loop. receive_bytes: what the peer may send before it is read."""

    def __init__(
        self,
        link: "CallLink[ClientCall]",
        stream: int,
        window_bytes: int,
        message_bytes_max: int,
        receive_bytes: int,
    ) -> None:
        self._link, self.stream, self.window_bytes = link, stream, window_bytes
        self._cutter = MessageCutter(message_bytes_max)
        self._messages: list[Message] = []
        self._receive_bytes = self.receivable_bytes = receive_bytes
        self._ungranted_bytes = 0
        self.counted_by_h2 = 0
        self._is_reading = self._has_length = False
        self.out = Outgoing()
        self._end: CallFailed | None = None
        self._news = asyncio.Event()

    # --- what the caller does

    def write(self, message: bytes) -> None:
        """Send a message. Does nothing once the call has ended: `read` tells how."""
        if self._end is None:
            self.out.put_message(message)
            self._link.schedule(self)

    async def read(self) -> list[bytes]:
        """Return all received messages, after waiting for the first. Raises CallFailed at the end, however it ended."""
        while not self._messages:
            if self._end is not None:
                raise self._end
            self._is_reading = True
            self._grant()
            self._news.clear()
            try:
                await self._news.wait()
            finally:
                self._is_reading = False
        found, self._messages = self._messages, []
        self._grant()
        return [one if isinstance(one, bytes) else await joined(one) for one in found]

    def fail(self, text: str) -> None:
        """End the call from this side; messages that have come can still be read."""
        if self._end is None:
            self._link.reset(self)
            self._finish(grpc.StatusCode.CANCELLED, text)

    def close(self) -> None:
        self._messages = []
        self.fail("closed")

    # --- what the connection tells (links.GrpcCall)

    @property
    def is_half_closed(self) -> bool:
        return self._end is not None

    def take(self, data: bytes | memoryview, counted: int) -> None:
        self._ungranted_bytes += counted
        try:
            messages = self._cutter.take(data)
        except TooLong as error:
            self._refuse(grpc.StatusCode.RESOURCE_EXHAUSTED, str(error))
            return
        self._link.spend(len(messages) // 2)
        for compressed, message in messages:
            if compressed:
                self._refuse(grpc.StatusCode.INTERNAL, "a message is compressed, which was not accepted")
                return
            self._messages.append(message)
        if self._messages:
            self._news.set()
        elif self._is_reading:
            self._grant()

    @property
    def is_plain(self) -> bool:
        return self._end is None and not self._has_length

    def take_end(self) -> None:
        self._link.reset(self)  # Our side is open still.
        self._finish(grpc.StatusCode.UNKNOWN, "the peer ended the call without a status")

    def take_headers(self, headers: Mapping[str, str]) -> None:
        """Take headers or trailers, which are headers as well where nothing was sent before."""
        status, kind = headers.get(":status", "200"), headers.get("content-type", "application/grpc")
        self._has_length |= "content-length" in headers  # Which h2 compares with the data that it has seen.
        if status != "200":
            self._finish(_CODES_OF_HTTP.get(status, grpc.StatusCode.UNKNOWN), f"HTTP status {status}")
        elif "grpc-status" in headers:
            code = _CODES.get(headers["grpc-status"], grpc.StatusCode.UNKNOWN)
            self._finish(code, unquote(headers.get("grpc-message", "")))
        elif not kind.startswith("application/grpc"):
            self._finish(grpc.StatusCode.UNKNOWN, f"the peer answers with {kind[:100]}, not with gRPC")

    def start(self) -> Headers | None:
        return None  # Headers went when the call began.

    def trailers(self) -> Headers | None:
        return None

    def sent(self) -> None:
        pass

    def over(self) -> None:
        self.left("the call is over")

    def left(self, text: str) -> None:
        self._finish(grpc.StatusCode.UNAVAILABLE, text)

    # --- ends

    def _refuse(self, code: grpc.StatusCode, text: str) -> None:
        if self._end is None:
            self._link.reset(self)
            self._finish(code, text)

    def _finish(self, code: grpc.StatusCode, text: str) -> None:
        if self._end is None:
            self._end = CallFailed(code, text)
            self.out.clear()
            self._news.set()

    def _grant(self) -> None:
        """Let the peer send as much again as was read, once that is a good part of the window."""
        size = self._ungranted_bytes
        if self._end is None and size > self._receive_bytes // 4:
            self._ungranted_bytes = 0
            self.receivable_bytes += size
            self._link.grant(self, size)
