"""Calls to one node over a bounded pool of connections.

Implements: design, section 4, step 4; hostile input 15; decisions 3.5 (one call per request, never a batch).
The shell: no rule about what an answer means (replies.py) or costs (gateway/outcomes.py).
"""

import asyncio
import base64
import ssl
from collections import deque
from urllib.parse import unquote, urlsplit

import msgspec

from actors.config import UpstreamConfig
from actors.upstream import replies
from actors.upstream.connection import AnswerMalformed, AnswerTooLarge, ConnectionBroken, NodeConnection
from actors.upstream.kinds import may_repeat
from actors.upstream.replies import AnswerKind, NodeAnswer
from actors.upstream.room import Room

# A send on a connection that the node is closing just then would be lost; servers close what was idle for 5 s or more.
_SEND_IDLE_SECONDS_MAX = 3.0
_CONNECT_SECONDS_MAX = 2.0  # A node that is not there is reported as such, long before its method's time is up.
_BODY_HEAD = b'{"jsonrpc":"2.0","id":' + replies.REQUEST_ID + b',"method":"'


class NodeClient:
    """Belongs to one event loop. Connections are opened as needed, kept, and dropped on any irregularity.

    name: what answers say of who served them. room: what the large answers of all nodes share.
    """

    def __init__(self, config: UpstreamConfig, node_url: str, name: str = "", room: Room | None = None) -> None:
        parts = urlsplit(node_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"the node's URL must start with http:// or https://, not {parts.scheme or 'nothing'}")
        self._host = parts.hostname
        self._tls = ssl.create_default_context() if parts.scheme == "https" else None
        self._port = parts.port or (443 if self._tls else 80)
        self._head = _request_head(node_url)
        self._name = name
        self._room = room or Room(config.large_answers_bytes_max)
        self._answer_bytes_max = config.answer_bytes_max
        self._permits = config.connections_max
        self._idle: list[NodeConnection] = []  # Last in, first out: the warmest one, and the rest may close in peace.
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._open: set[NodeConnection] = set()

    async def call(self, method: str, params: bytes, timeout_ms: int) -> NodeAnswer:
        """Ask once. params: the bytes of a JSON array. Every way it can go wrong is a kind of answer; raises nothing.

        A read is asked a second time when a kept connection turned out closed before any byte of an answer came, which
        happens whenever a node restarts or tidies up. A send never is, as nobody knows whether the node had it; it
        takes a connection that was used just now, or a new one. NOT_SENT: nothing of the call has left.
        """
        body = b'%b%b","params":%b}' % (_BODY_HEAD, method.encode(), params)
        request = b"%b%d\r\n\r\n%b" % (self._head, len(body), body)
        now = asyncio.get_running_loop().time()
        give_up_at = now + timeout_ms / 1000
        repeats = may_repeat(method)
        if self._permits > 0:
            self._permits -= 1
        elif not await self._wait_for_permit(give_up_at):
            return replies.TIMED_OUT
        try:
            connection = self._take_idle(0.0 if repeats else now - _SEND_IDLE_SECONDS_MAX)
            if connection is not None:
                answer = await self._exchange(connection, request, give_up_at, kept=repeats)
                if answer is not None:
                    return answer
            connection = await self._connect(give_up_at)
            if connection is None:
                return replies.NOT_SENT
            answer = await self._exchange(connection, request, give_up_at, kept=False)
            assert answer is not None, "only a kept connection asks for another try"
            return answer
        finally:
            self._give_back_permit()

    async def close(self) -> None:
        """Drop all connections; calls under way end as UNREACHABLE."""
        for connection in list(self._open):
            connection.abort()
        self._open.clear()
        self._idle.clear()

    async def _exchange(
        self, connection: NodeConnection, request: bytes, give_up_at: float, kept: bool
    ) -> NodeAnswer | None:
        try:
            status, body, lease = await connection.exchange(request, give_up_at)
        except ConnectionBroken as error:
            self._open.discard(connection)
            return None if kept and error.untouched else replies.UNREACHABLE
        except TimeoutError:
            self._open.discard(connection)
            return replies.TIMED_OUT
        except AnswerTooLarge:
            self._open.discard(connection)
            return replies.OVERSIZED
        except AnswerMalformed:
            self._open.discard(connection)
            return replies.GARBAGE
        except BaseException:  # The caller left: the answer would arrive under somebody else's call.
            self._drop(connection)
            raise
        answer = replies.judge(body, self._name, lease)
        if answer.kind is AnswerKind.GARBAGE:
            self._drop(connection)
            # 429 and 5xx with a page of text come from the node's own door or a proxy before it.
            return answer if status == 200 else replies.UNREACHABLE
        if connection.usable:
            self._idle.append(connection)
        else:
            self._open.discard(connection)
        if (status == 429 or status >= 500) and answer.kind is AnswerKind.ERROR:
            return msgspec.structs.replace(answer, turned_away=True)
        return answer

    def _take_idle(self, used_after: float) -> NodeConnection | None:
        while self._idle and (self._idle[-1].used_at >= used_after or not self._idle[-1].usable):
            connection = self._idle.pop()
            if connection.usable:
                return connection
            self._open.discard(connection)
        return None

    async def _connect(self, give_up_at: float) -> NodeConnection | None:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout_at(min(give_up_at, loop.time() + _CONNECT_SECONDS_MAX)):
                _, connection = await loop.create_connection(
                    lambda: NodeConnection(self._answer_bytes_max, self._room), self._host, self._port, ssl=self._tls
                )
        except (OSError, TimeoutError):  # ssl.SSLError is an OSError.
            return None
        self._open.add(connection)
        return connection

    def _drop(self, connection: NodeConnection) -> None:
        self._open.discard(connection)
        connection.abort()

    async def _wait_for_permit(self, give_up_at: float) -> bool:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            async with asyncio.timeout_at(give_up_at):
                await waiter
        except TimeoutError:
            return waiter.done() and not waiter.cancelled()  # It may have come in the very moment.
        except BaseException:
            if waiter.done() and not waiter.cancelled():
                self._give_back_permit()
            raise
        return True

    def _give_back_permit(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
        self._permits += 1


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
