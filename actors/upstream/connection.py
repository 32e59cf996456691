"""One kept-alive HTTP/1.1 connection to a node: one request in flight, its whole answer or a reason why not.

Implements: hostile input 15 (hangs, resets, endless and compressed answers). The shell around httptools' parser.
Knows HTTP and nothing of JSON-RPC; which connection is used, and what an answer means, is decided elsewhere.

A hand-fitted client rather than aiohttp's: the exchange is one write and one future, which measured at a quarter of
the CPU, and every way it can end is spelled out here (README.md, "Why not aiohttp").
"""

import asyncio
from functools import partial

import httptools

from actors.upstream.replies import Lease
from actors.upstream.room import LARGE_BYTES, Room

_UNFRAMED = -1


class ConnectionBroken(Exception):
    """The connection ended before the answer did. untouched: not one byte of an answer had come."""

    def __init__(self, untouched: bool) -> None:
        super().__init__("the node closed the connection")
        self.untouched = untouched


class AnswerTooLarge(Exception):
    pass


class AnswerMalformed(Exception):
    """Not HTTP, or an encoding that was not asked for."""


class NodeConnection(asyncio.Protocol):
    """room: what the large answers of all connections share."""

    def __init__(self, answer_bytes_max: int, room: Room) -> None:
        self._answer_bytes_max = answer_bytes_max
        self._room = room
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._waiter: asyncio.Future[tuple[int, bytes, Lease | None]] | None = None
        self._expiry: asyncio.TimerHandle | None = None
        self._claimed = self._wanted = 0  # Bytes of the room: had, and waited for.
        self._reset()
        self.usable = False
        self.used_at = self._loop.time()

    def _reset(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0
        self._touched = False
        self._headers_complete = False
        self._framing = _UNFRAMED
        self._announced: int | None = None
        self._problem: Exception | None = None

    def exchange(self, request: bytes, give_up_at: float) -> "asyncio.Future[tuple[int, bytes, Lease | None]]":
        """Send; the future gives (HTTP status, body, room that the body takes). give_up_at: loop time.

        Fails with ConnectionBroken, AnswerTooLarge, AnswerMalformed or TimeoutError, and the connection is then gone.
        Whoever stops waiting must call abort(): the answer may still be on its way.
        """
        assert self.usable and self._waiter is None and self._transport is not None
        self._reset()
        self._waiter = self._loop.create_future()
        self._expiry = self._loop.call_at(give_up_at, self._expire)
        self._transport.write(request)
        return self._waiter

    def abort(self) -> None:
        """Drop the connection at once, whatever is under way."""
        self.usable = False
        if self._transport is not None:
            self._transport.abort()
        self._finish(ConnectionBroken(untouched=not self._touched))

    # --- asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport) or hasattr(transport, "abort")
        self._transport = transport  # type: ignore[assignment]  # uvloop's transports are not subclasses.
        self.usable = True

    def data_received(self, data: bytes) -> None:
        if self._waiter is None:
            self.abort()  # Bytes that nobody asked for: whatever follows could be taken for another call's answer.
            return
        self._touched = True
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self._fail(AnswerMalformed("not HTTP"))
            return
        if self._problem is not None:
            self._fail(self._problem)

    def eof_received(self) -> bool:
        return False  # The transport closes; connection_lost decides what that means.

    def connection_lost(self, exc: Exception | None) -> None:
        self.usable = False
        self._transport = None
        if self._waiter is None:
            return
        if exc is None and self._headers_complete and self._framing == _UNFRAMED:
            self._complete()  # HTTP/1.0: the end of the connection is the end of the body.
            return
        self._finish(ConnectionBroken(untouched=not self._touched))

    # --- the parser's side

    def on_message_begin(self) -> None:
        if self._waiter is None:
            self._problem = AnswerMalformed("a second answer to one request")

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        if name == b"content-length":
            self._framing = 0
            if not value.isdigit() or int(value[:20]) > self._answer_bytes_max:
                self._problem = AnswerTooLarge()
            else:
                self._announced = int(value)
        elif name == b"transfer-encoding":
            self._framing = 0
        elif name == b"content-encoding" and value.lower() != b"identity":
            self._problem = AnswerMalformed("compressed, though identity was asked for")

    def on_headers_complete(self) -> None:
        self._headers_complete = True
        if self._problem is None and self._announced is not None and self._announced > LARGE_BYTES:
            self._claim(self._announced)

    def on_body(self, body: bytes) -> None:
        self._size += len(body)
        if self._size > self._answer_bytes_max:
            self._problem = AnswerTooLarge()
            self._parts.clear()
        elif self._problem is None:
            self._parts.append(body)
            if self._announced is None and self._size > max(self._claimed, LARGE_BYTES) and not self._wanted:
                # Nobody said how long it will be: twice as much each time.
                self._claim(min(max(self._claimed, 8 * LARGE_BYTES), self._answer_bytes_max))

    def on_message_complete(self) -> None:
        if self._problem is None and self._waiter is not None:
            self._complete()

    # --- room for large answers

    def _claim(self, size: int) -> None:
        if self._room.claim(size, self._granted):
            self._claimed += size
        elif self._transport is not None:
            self._wanted = size
            self._transport.pause_reading()  # The node waits, and so does whoever asked, until their time is over.

    def _granted(self) -> None:
        self._claimed += self._wanted
        self._wanted = 0
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def _take_lease(self) -> Lease | None:
        if self._wanted:
            self._room.withdraw(self._granted)
            self._wanted = 0
            if self._transport is not None and not self._transport.is_closing():
                self._transport.resume_reading()
        claimed, self._claimed = self._claimed, 0
        return Lease(partial(self._room.give_back, claimed)) if claimed else None

    # --- endings

    def _complete(self) -> None:
        if not self._parser.should_keep_alive():
            self.usable = False
            if self._transport is not None:
                self._transport.close()
        parts = self._parts
        body = parts[0] if len(parts) == 1 else b"".join(parts)
        self._parts = []
        lease = self._take_lease()
        self.used_at = self._loop.time()
        waiter = self._take_waiter()
        if waiter is not None and not waiter.done():
            waiter.set_result((self._parser.get_status_code(), body, lease))

    def _expire(self) -> None:
        self._fail(TimeoutError("the node did not answer in time"))

    def _fail(self, error: Exception) -> None:
        self.usable = False
        self._finish(error)
        if self._transport is not None:
            self._transport.abort()

    def _finish(self, error: Exception) -> None:
        self._parts = []
        self._take_lease()  # Let go at once: there is nobody to hold it.
        waiter = self._take_waiter()
        if waiter is not None and not waiter.done():
            waiter.set_exception(error)

    def _take_waiter(self) -> "asyncio.Future[tuple[int, bytes, Lease | None]] | None":
        waiter, self._waiter = self._waiter, None
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
        return waiter
