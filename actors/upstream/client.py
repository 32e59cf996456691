"""Calls to one node over aiohttp's pool of kept connections.

Implements: design, section 4, step 4; hostile input 15 (hangs, resets, endless and compressed answers); decisions 3.5
(one call per request, never a batch).
The shell: no rule about what an answer means (replies.py) or costs (gateway/outcomes.py).

Connecting, TLS, the pool and the parser are aiohttp's. Its ClientSession is not used: a request here is a head that
never changes and a length, and what a session does beside that (cookies, redirects, header tables, a task a request)
was three quarters of its cost (README.md, "What of aiohttp is used").
"""

import asyncio
import base64
from functools import partial
from urllib.parse import unquote, urlsplit

import aiohttp
import msgspec
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from aiohttp.helpers import _EXC_SENTINEL
from aiohttp.http import HttpProcessingError, RawResponseMessage
from yarl import URL

from actors.config import UpstreamConfig
from actors.upstream import replies
from actors.upstream.kinds import may_repeat
from actors.upstream.replies import AnswerKind, Lease, NodeAnswer
from actors.upstream.room import LARGE_BYTES, Room

# A send on a connection that the node is closing just then would be lost; servers close what was idle for 5 s or more.
_KEPT_SECONDS = 3.0
# A node that is not there is reported as such, long before its method's time is up.
_CONNECTING = aiohttp.ClientTimeout(total=None, sock_connect=2.0)
_BODY_HEAD = b'{"jsonrpc":"2.0","id":' + replies.REQUEST_ID + b',"method":"'
_PLAIN = (None, "", "identity")
_INFORMATIONAL = range(100, 200)


class NodeClient:
    """Belongs to one event loop. Connections are opened as needed, kept, and dropped on any irregularity.

    name: what answers say of who served them. room: what the large answers of all nodes share.
    """

    def __init__(self, config: UpstreamConfig, node_url: str, name: str = "", room: Room | None = None) -> None:
        parts = urlsplit(node_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"the node's URL must start with http:// or https://, not {parts.scheme or 'nothing'}")
        self._node_url = node_url
        self._head = _request_head(node_url)
        self._name = name
        self._room = room or Room(config.large_answers_bytes_max)
        self._answer_bytes_max = config.answer_bytes_max
        self._connections_max = config.connections_max
        self._connector: aiohttp.TCPConnector | None = None
        self._target: aiohttp.ClientRequest | None = None  # What the pool wants to know: where to.
        self._is_closed = False

    async def call(self, method: str, params: bytes, timeout_ms: int) -> NodeAnswer:
        """Ask once. params: the bytes of a JSON array. Every way it can go wrong is a kind of answer; raises nothing.

        A read is asked a second time when its connection was closed before an answer began, which happens to kept ones
        whenever a node restarts or tidies up. A send never is, as nobody knows whether the node had it; it takes a
        connection that was used just now, or a new one. NOT_SENT: nothing of the call has left.
        """
        body = b'%b%b","params":%b}' % (_BODY_HEAD, method.encode(), params)
        request = b"%b%d\r\n\r\n%b" % (self._head, len(body), body)
        give_up_at = asyncio.get_running_loop().time() + timeout_ms / 1000
        try:
            async with asyncio.timeout_at(give_up_at):
                answer = await self._ask(request)
                if answer is None and may_repeat(method):
                    answer = await self._ask(request)
        except TimeoutError:
            return replies.TIMED_OUT
        return replies.UNREACHABLE if answer is None else answer

    async def close(self) -> None:
        """Drop all connections; calls under way end as UNREACHABLE."""
        self._is_closed = True
        if self._connector is not None:
            await self._connector.close()

    async def _ask(self, request: bytes) -> NodeAnswer | None:
        """None: the connection was closed before an answer began."""
        if self._is_closed:
            return replies.UNREACHABLE
        if self._connector is None or self._target is None:
            self._connector, self._target = self._open()
        try:
            connection = await self._connector.connect(self._target, [], _CONNECTING)
        except (OSError, TimeoutError, aiohttp.ClientError):  # ssl.SSLError is an OSError.
            return replies.NOT_SENT
        try:
            answer = await self._exchange(connection, request)
        except BaseException:  # The answer that is still on its way must not be read as the next call's.
            connection.close()
            raise
        if answer is None or not answer.answered:
            connection.close()
        else:
            connection.release()
        return answer

    async def _exchange(self, connection: Connection, request: bytes) -> NodeAnswer | None:
        protocol, transport = connection.protocol, connection.transport
        if protocol is None or transport is None:
            return None
        protocol.set_response_params(read_until_eof=True, auto_decompress=False)
        transport.write(request)
        try:
            message, payload = await protocol.read()
            while message.code in _INFORMATIONAL:
                message, payload = await protocol.read()
        except HttpProcessingError:
            return replies.GARBAGE
        except (aiohttp.ClientConnectionError, OSError):
            return None
        try:
            answer = await self._read(message, payload)
        except HttpProcessingError:
            return replies.GARBAGE
        except (aiohttp.ClientError, OSError):
            return replies.UNREACHABLE  # It ended in the middle of its answer.
        if answer.kind is AnswerKind.GARBAGE and message.code != 200:
            return replies.UNREACHABLE  # 429 and 5xx with a page of text: the node's own door, or a proxy before it.
        if (message.code == 429 or message.code >= 500) and answer.kind is AnswerKind.ERROR:
            return msgspec.structs.replace(answer, turned_away=True)
        return answer

    async def _read(self, message: RawResponseMessage, payload: aiohttp.StreamReader) -> NodeAnswer:
        if message.headers.get("Content-Encoding") not in _PLAIN:
            return replies.GARBAGE  # Not asked for; unpacking it is how a small answer becomes a huge one.
        length = message.headers.get("Content-Length")
        size = None if length is None or message.chunked else int(length)  # The parser has let digits only through.
        if size is not None and size > self._answer_bytes_max:
            return replies.OVERSIZED
        if size is not None and size <= LARGE_BYTES:
            return replies.judge(await payload.read(), self._name)
        body, lease = await self._read_large(payload, size)
        return replies.OVERSIZED if body is None else replies.judge(body, self._name, lease)

    async def _read_large(self, payload: aiohttp.StreamReader, size: int | None) -> tuple[bytes | None, Lease | None]:
        """A body that needs room, or one whose length nobody said: twice as much room each time.

        aiohttp reads no further than its buffer while this waits, so the node waits, and so does whoever asked.
        (None, None): it is longer than is taken.
        """
        claimed = 0
        try:
            if size is not None:
                claimed = await self._claim(size)
            parts, received = [], 0
            async for part in payload.iter_any():
                received += len(part)
                if received > self._answer_bytes_max:
                    return None, None
                if size is None and received > max(claimed, LARGE_BYTES):
                    claimed += await self._claim(min(max(claimed, 8 * LARGE_BYTES), self._answer_bytes_max - claimed))
                parts.append(part)
            lease = Lease(partial(self._room.give_back, claimed)) if claimed else None
            claimed = 0
            return b"".join(parts), lease
        finally:
            if claimed:
                self._room.give_back(claimed)

    async def _claim(self, size: int) -> int:
        wait = _Wait()
        if self._room.claim(size, wait.grant):
            return size
        try:
            await wait.future
        except BaseException:
            if wait.is_granted:
                self._room.give_back(size)
            else:
                self._room.withdraw(wait.grant)
            raise
        return size

    def _open(self) -> tuple[aiohttp.TCPConnector, aiohttp.ClientRequest]:
        loop = asyncio.get_running_loop()
        connector = aiohttp.TCPConnector(limit=self._connections_max, keepalive_timeout=_KEPT_SECONDS)
        connector._factory = partial(_Strict, loop=loop)  # type: ignore[assignment]
        return connector, aiohttp.ClientRequest("POST", URL(self._node_url, encoded=True), loop=loop, ssl=True)


class _Strict(ResponseHandler):
    """aiohttp's connection, which ends at bytes that nobody asked for, and tells who reads an answer that it ended.

    aiohttp itself keeps such bytes, and gives them to whoever is next on this connection as his answer; and whoever
    reads when a body turns out malformed, or when the pool is closed, it lets wait until his time is up.
    """

    def set_exception(self, exc: BaseException, exc_cause: BaseException = _EXC_SENTINEL) -> None:
        self._end_payload(exc)
        super().set_exception(exc, exc_cause)

    def close(self) -> None:
        self._end_payload(aiohttp.ClientPayloadError("closed"))
        super().close()

    def _end_payload(self, error: BaseException) -> None:
        payload = self._payload
        if payload is not None and not payload.is_eof() and payload.exception() is None:
            payload.set_exception(error)

    def data_received(self, data: bytes) -> None:
        is_asked = self._waiter is not None or (self._payload is not None and not self._payload.is_eof())
        if data and not is_asked:  # None: it goes on with what it had to put aside.
            self.force_close()
            self.abort()
            return
        super().data_received(data)


class _Wait:
    """For room."""

    def __init__(self) -> None:
        self.future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.is_granted = False

    def grant(self) -> None:
        self.is_granted = True
        if not self.future.done():  # Else whoever waited has left, and gives the room back.
            self.future.set_result(None)


def _request_head(node_url: str) -> bytes:
    """Everything of a request before the body's length. User and password of the URL become basic credentials."""
    parts = urlsplit(node_url)
    assert parts.hostname is not None
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    lines = [
        f"POST {target} HTTP/1.1",
        f"Host: {host}:{parts.port}" if parts.port else f"Host: {host}",
        "Content-Type: application/json",
        "Accept: application/json",
        "Accept-Encoding: identity",
        "User-Agent: ledger-gateway",
    ]
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        lines.append("Authorization: Basic " + base64.b64encode(pair.encode()).decode())
    if " " in target or " " in host:
        raise ValueError("the node's URL contains a space")
    return ("\r\n".join(lines) + "\r\nContent-Length: ").encode("ascii")
