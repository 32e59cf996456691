"""Sends requests to one node over connections that are reused, with aiohttp's pool and parser used directly.

Implements: threats 15 and 47 (hangs, resets, surplus bytes, second answers). The shell: client.py and replies.py
decide what an answer means.

aiohttp's ClientSession is not used here. A request is a constant head and a length; the rest of a session's work
(cookies, redirects, header tables, a task for each request) took three quarters of its time (README.md, "Parts of
aiohttp in use"). Some of the parts used instead are not public. They are tested without a network before the first
connection, and every connection is checked again before it carries a request. Where aiohttp does otherwise,
UnsupportedAiohttp is raised and connections.SingleConnections takes over.
"""

import asyncio
from functools import partial
from typing import Any, cast

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from aiohttp.http import HttpProcessingError
from yarl import URL

from actors.upstream import replies
from actors.upstream.connections import CONNECTING, BodyReader, NodeAddress, ReadAnswer, UnsupportedAiohttp
from actors.upstream.replies import VALIDATED_BYTES_MAX, NodeAnswer
from actors.upstream.socket_bodies import SocketBody

# Servers close connections that were idle for 5 s or more, and a send on a closing connection would be lost.
_KEPT_SECONDS = 3.0
_CLOSED_AT_ONCE_MAX, _CLOSING_PAUSE_SECONDS = 32, 0.002  # Closing one takes 40 us.
# The parser stops reading where it has twice as much of a body, so it gets one or two reads of uvloop (256 kB each). Of
# a large body it would copy 256 kB more, twice, and the hash would begin as much later.
_PARSED_BYTES = 128 << 10
_FINAL_STATUS_MIN, _SWITCHING_PROTOCOLS = 200, 101
_INTERIM_ANSWERS_MAX = 8  # A node that sends more in a row only keeps this side busy.
# A read brings up to 256 kB. The parser takes 15 ms for so much in chunks of one byte. So it gets slices, of 1 ms, and
# no more of an answer whose chunks are smaller than 64 bytes on average. What came behind a full body it gets at once
# later, and stops by itself after 8,192 chunks: 3 ms.
_SLICE_BYTES = 16_384
_CHUNKS_OF_SLICE_MAX = _SLICE_BYTES // 64


class KeptConnections:
    """Connections that are reused. The constructor raises UnsupportedAiohttp too.

    aiohttp's pool makes the connections, counts them and has callers wait beyond connections_max. An idle connection is
    kept here, and not given back to the pool, unless a caller waits there for one: a lone call takes the one that was
    used last, without the twenty calls of functions of the pool.
    """

    def __init__(self, address: NodeAddress, connections_max: int) -> None:
        loop = self._loop = asyncio.get_running_loop()
        _check_aiohttp(loop)
        self._idle: list[tuple[Connection, float]] = []  # With the time of its last answer, oldest first.
        self._sweep: asyncio.TimerHandle | None = None  # Runs while a connection is idle.
        self._trusted_since = 0.0  # Connections that are idle since before are not used again.
        self._connections_max = connections_max
        self._open = 0  # Connections that the pool gave out and has not got back.
        self._connecting = 0  # Callers that wait for the pool.
        self._head = address.request_head()
        self._connector = aiohttp.TCPConnector(limit=connections_max, keepalive_timeout=_KEPT_SECONDS)
        self._connector._factory = partial(StrictConnection, loop=loop)  # type: ignore[assignment]
        self._target = aiohttp.ClientRequest("POST", URL(address.url, encoded=True), loop=loop, ssl=True)

    async def exchange(
        self, body: bytes, request_id: bytes, read: ReadAnswer, further: bytes = b""
    ) -> NodeAnswer | None:
        connection = self._take_idle()
        if connection is None:
            self._connecting += 1
            try:
                connection = await self._connector.connect(self._target, [], CONNECTING)
            except (OSError, TimeoutError, aiohttp.ClientError):  # ssl.SSLError is an OSError.
                return replies.NOT_SENT
            finally:
                self._connecting -= 1
            self._open += 1
        try:
            answer = await self._exchange_on(connection, body, request_id, read, further)
        except BaseException:  # The next call must not read the answer to this one.
            self._close(connection)
            raise
        if answer is None:  # The node closed it, and perhaps the other idle ones: a repeated call needs a new one.
            self._close(connection)
            self._trusted_since = self._loop.time()
            self._end_idle(_KEPT_SECONDS)
        elif not answer.answered:
            self._close(connection)
        else:
            self._keep(connection)
        return answer

    async def close(self) -> None:
        if self._sweep is not None:
            self._sweep.cancel()
        while self._idle:
            self._close(self._idle.pop()[0])
        await self._connector.close()

    def _take_idle(self) -> Connection | None:
        """Older ones are left to `_end_idle`, which closes a few at a time."""
        oldest = max(self._loop.time() - _KEPT_SECONDS, self._trusted_since)
        while self._idle and self._idle[-1][1] > oldest:
            connection, _ = self._idle.pop()
            protocol = connection.protocol
            if protocol is not None and protocol.is_connected():
                return connection
            self._close(connection)
        return None

    def _keep(self, connection: Connection) -> None:
        protocol = connection.protocol
        is_awaited = self._connecting and self._open + self._connecting > self._connections_max
        if is_awaited or self._connector.closed or protocol is None or protocol.should_close:
            self._open -= 1
            connection.release()  # To a caller that waits; the pool closes one that cannot be used again.
            return
        self._idle.append((connection, self._loop.time()))
        if self._sweep is None:
            self._sweep = self._loop.call_later(_KEPT_SECONDS, self._end_idle, _KEPT_SECONDS)

    def _close(self, connection: Connection) -> None:
        self._open -= 1
        connection.close()

    def _end_idle(self, kept_seconds: float) -> None:
        """Close the connections that were idle for this long, or are not trusted any more, some in each turn: after a
        burst of calls all of its connections are due at once."""
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None
        now = self._loop.time()
        oldest, closed = max(now - kept_seconds, self._trusted_since), 0
        while self._idle and self._idle[0][1] <= oldest and closed < _CLOSED_AT_ONCE_MAX:
            self._close(self._idle.pop(0)[0])
            closed += 1
        if self._idle:
            left = max(self._idle[0][1] + kept_seconds - now, 0.0) if closed < _CLOSED_AT_ONCE_MAX else 0.0
            self._sweep = self._loop.call_later(max(left, _CLOSING_PAUSE_SECONDS), self._end_idle, kept_seconds)

    async def _exchange_on(
        self, connection: Connection, body: bytes, request_id: bytes, read: ReadAnswer, further: bytes
    ) -> NodeAnswer | None:
        protocol, transport = connection.protocol, connection.transport
        if protocol is None or transport is None:
            return None
        if type(protocol) is not StrictConnection:
            raise UnsupportedAiohttp("its pool makes connections of its own class")
        protocol.set_response_params(read_until_eof=True, auto_decompress=False, read_bufsize=_PARSED_BYTES)
        transport.write(b"%b%d\r\n%b\r\n%b" % (self._head, len(body), further, body))
        try:
            message, payload = await protocol.read()
            if message.code < _FINAL_STATUS_MIN:
                message, payload = await _after_interim_answers(protocol, message.code)
        except HttpProcessingError:
            return replies.GARBAGE
        except (aiohttp.ClientConnectionError, OSError):
            return None
        if transport.get_write_buffer_size():
            return replies.UNREACHABLE  # The node, or a proxy before it, answered before it had read the request.
        reader = _reader_of(protocol, transport, message, payload)
        try:
            return await read(request_id, message.code, message.headers, message.chunked, reader)
        except HttpProcessingError:
            return replies.GARBAGE
        except (aiohttp.ClientError, OSError):
            return replies.UNREACHABLE  # The connection ended in the middle of the answer.
        finally:
            protocol.socket_body = None


def _reader_of(
    protocol: "StrictConnection", transport: asyncio.Transport, message: Any, payload: aiohttp.StreamReader
) -> BodyReader:
    """How the body of this answer is read: one that is large, of known length, and not encrypted past the parser."""
    length = None if message.chunked else message.headers.get("Content-Length")
    if length is None or int(length) <= VALIDATED_BYTES_MAX or transport.get_extra_info("sslcontext"):
        return payload
    protocol.socket_body = SocketBody(transport, payload, int(length))
    return protocol.socket_body


async def _after_interim_answers(protocol: ResponseHandler, code: int) -> Any:
    """Read the first final answer after "100 Continue" and the like. A switch of protocols was never requested."""
    for _ in range(_INTERIM_ANSWERS_MAX):
        if code == _SWITCHING_PROTOCOLS:
            break
        message, payload = await protocol.read()
        code = message.code
        if code >= _FINAL_STATUS_MIN:
            return message, payload
    raise HttpProcessingError(code=code, message="no final answer")


class StrictConnection(ResponseHandler):
    """A connection of aiohttp that closes on unasked bytes, and tells the reader of a body when it ends.

    aiohttp itself keeps such bytes and gives them to the next call on this connection as its answer. When a body is
    malformed, or the pool closes, aiohttp leaves the reader of the body waiting until the timeout.
    """

    socket_body: SocketBody | None = None  # Of the answer under way, where it is read past this object.

    def set_exception(self, exc: BaseException, *cause: Any) -> None:
        self._end_payload(exc)
        super().set_exception(exc, *cause)

    def close(self) -> None:
        self._end_payload(aiohttp.ClientPayloadError("closed"))
        super().close()

    def _end_payload(self, error: BaseException) -> None:
        if self.socket_body is not None:
            self.socket_body.fail(error)
        payload = self._payload
        if payload is not None and not payload.is_eof() and payload.exception() is None:
            payload.set_exception(error)

    def data_received(self, data: bytes) -> None:
        is_asked = self._waiter is not None or (self._payload is not None and not self._payload.is_eof())
        if data and not is_asked:  # Empty data: aiohttp continues with bytes that it had buffered.
            self.force_close()
            self.abort()
        elif len(data) <= _SLICE_BYTES:
            super().data_received(data)
        else:
            self._received_in_slices(data)

    def _received_in_slices(self, data: bytes) -> None:
        for start in range(0, len(data), _SLICE_BYTES):
            before = self._chunks
            self.data_received(data[start : start + _SLICE_BYTES])
            if self._chunks - before > _CHUNKS_OF_SLICE_MAX:
                self._end_payload(HttpProcessingError(code=0, message="its chunks are too small"))
                self.force_close()
                self.abort()
                return

    @property
    def _chunks(self) -> int:
        """The chunks of the answer that its reader has not seen yet."""
        return 0 if self._payload is None else len(self._payload._http_chunk_splits or ())


# --- checks of aiohttp ------------------------------------------------------------------------------------------------


class _NoNetwork:
    """A transport that only records that it was closed."""

    ended = False

    def get_extra_info(self, name: str) -> None:
        return None

    def is_closing(self) -> bool:
        return self.ended

    def close(self) -> None:
        self.ended = True

    abort = close


def _check_aiohttp(loop: asyncio.AbstractEventLoop) -> None:
    """Check all that this module relies on, without a network. Raises UnsupportedAiohttp."""
    try:
        _read_one_answer(loop)
        _end_at_unasked_bytes(loop)
        _end_the_reading_of_a_malformed_body(loop)
    except Exception as error:
        raise UnsupportedAiohttp(f"{type(error).__name__}: {error}") from error


def _asked(loop: asyncio.AbstractEventLoop) -> tuple[StrictConnection, _NoNetwork, Any]:
    """Make a connection whose caller waits for an answer; the third value is the caller's coroutine."""
    connection, transport = StrictConnection(loop), _NoNetwork()
    connection.connection_made(cast(asyncio.Transport, transport))
    connection.set_response_params(read_until_eof=True, auto_decompress=False, read_bufsize=_PARSED_BYTES)
    reading: Any = connection.read()
    reading.send(None)
    return connection, transport, reading


def _received(reading: Any) -> Any:
    """Return the head and the stream of the body, as the caller gets them."""
    try:
        reading.send(None)
    except StopIteration as stop:
        return stop.value
    raise AssertionError("an answer does not wake its reader")


def _read_one_answer(loop: asyncio.AbstractEventLoop) -> None:
    connection, transport, reading = _asked(loop)
    connection.data_received(b"HTTP/1.1 200 OK\r\ncontent-LENGTH: 4\r\n\r\ntrue")
    message, payload = _received(reading)
    seen = (message.code, message.headers.get("Content-Length"), bool(message.chunked), payload.is_eof())
    assert seen == (200, "4", False, True), seen
    assert payload.read_nowait() == b"true", "a body does not arrive"
    assert not connection.should_close and not transport.ended, "a connection is not kept"


def _end_at_unasked_bytes(loop: asyncio.AbstractEventLoop) -> None:
    connection, transport, reading = _asked(loop)
    connection.data_received(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ntrue")
    _received(reading)
    connection.data_received(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfalse")
    assert transport.ended and not connection.is_connected(), "unasked bytes do not end a connection"


def _end_the_reading_of_a_malformed_body(loop: asyncio.AbstractEventLoop) -> None:
    connection, _, reading = _asked(loop)
    connection.data_received(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\ntrue\r\n")
    message, payload = _received(reading)
    assert message.chunked and not payload.is_eof(), "chunks are not told"
    assert connection._chunks == 1, "chunks are not counted"
    connection.data_received(b"no chunk\r\n")
    assert payload.exception() is not None, "a malformed body does not end its reading"
    connection.close()
