"""Calls to one node over aiohttp's pool of kept connections.

Implements: design, section 4, step 4; hostile input 15 (hangs, resets, endless and compressed answers); decisions 3.5
(one call per request, never a batch).
The shell: no rule about what an answer means (replies.py) or costs (gateway/outcomes.py).
"""

import asyncio
import base64
import math
from functools import partial
from urllib.parse import unquote, urlsplit

import aiohttp
import msgspec
from aiohttp.client_proto import ResponseHandler
from yarl import URL

from actors.config import UpstreamConfig
from actors.upstream import replies
from actors.upstream.kinds import may_repeat
from actors.upstream.replies import AnswerKind, Lease, NodeAnswer
from actors.upstream.room import LARGE_BYTES, Room

# A send on a connection that the node is closing just then would be lost; servers close what was idle for 5 s or more.
_KEPT_SECONDS = 3.0
_CONNECT_SECONDS_MAX = 2.0  # A node that is not there is reported as such, long before its method's time is up.
_RETIRE_SECONDS = 60.0  # The longest call that a pool may still have when it is replaced is over by then.
_RENEW_SECONDS_MIN = 1.0  # A node that answers nonsense all the time costs one fresh pool a second, not one a call.
_BODY_HEAD = b'{"jsonrpc":"2.0","id":' + replies.REQUEST_ID + b',"method":"'
_PLAIN = (None, "", "identity")
_NOT_CONNECTED = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)
_MALFORMED = (aiohttp.ClientResponseError, aiohttp.http.HttpProcessingError)


class NodeClient:
    """Belongs to one event loop. Connections are opened as needed, kept, and dropped on any irregularity.

    name: what answers say of who served them. room: what the large answers of all nodes share.
    """

    def __init__(self, config: UpstreamConfig, node_url: str, name: str = "", room: Room | None = None) -> None:
        parts = urlsplit(node_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"the node's URL must start with http:// or https://, not {parts.scheme or 'nothing'}")
        if " " in node_url:
            raise ValueError("the node's URL contains a space")
        self._url = URL(node_url, encoded=True).with_user(None)  # Its path and query stay as they were written.
        self._headers = {
            "Content-Type": "application/json",
            "Accept": "application/json",
            "Accept-Encoding": "identity",
            "User-Agent": "ledger-gateway",
        }
        if parts.username is not None:
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self._headers["Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()
        self._name = name
        self._room = room or Room(config.large_answers_bytes_max)
        self._answer_bytes_max = config.answer_bytes_max
        self._connections_max = config.connections_max
        self._session: aiohttp.ClientSession | None = None
        self._is_closed = False
        self._renewed_at = -_RENEW_SECONDS_MIN
        self._retiring: set[asyncio.Task[None]] = set()

    async def call(self, method: str, params: bytes, timeout_ms: int) -> NodeAnswer:
        """Ask once. params: the bytes of a JSON array. Every way it can go wrong is a kind of answer; raises nothing.

        A read is asked a second time when its connection was closed before an answer began, which happens to kept ones
        whenever a node restarts or tidies up. A send never is, as nobody knows whether the node had it; it takes a
        connection that was used just now, or a new one. NOT_SENT: nothing of the call has left.
        """
        body = b'%b%b","params":%b}' % (_BODY_HEAD, method.encode(), params)
        give_up_at = asyncio.get_running_loop().time() + timeout_ms / 1000
        answer = await self._ask(body, give_up_at)
        if answer is None and may_repeat(method):
            answer = await self._ask(body, give_up_at)
        return replies.UNREACHABLE if answer is None else answer

    async def close(self) -> None:
        """Drop all connections; calls under way end as UNREACHABLE."""
        self._is_closed = True
        for task in self._retiring:
            task.cancel()
        await asyncio.gather(*self._retiring, return_exceptions=True)
        if self._session is not None:
            await self._session.close()

    async def _ask(self, body: bytes, give_up_at: float) -> NodeAnswer | None:
        """None: the connection was closed before an answer began."""
        if self._is_closed:
            return replies.UNREACHABLE
        left = max(give_up_at - asyncio.get_running_loop().time(), 0.001)
        connect = min(_CONNECT_SECONDS_MAX, left)
        timeout = aiohttp.ClientTimeout(total=left, sock_connect=connect, ceil_threshold=math.inf)  # Not rounded up.
        session = self._session or self._open()
        status = 200
        try:
            response = await session.post(
                self._url, data=aiohttp.BytesPayload(body), timeout=timeout, allow_redirects=False
            )
            status = response.status
            try:
                answer = await self._read(response, give_up_at)
            except BaseException:  # The answer that is still on its way must not be read as the next call's.
                response.close()
                raise
        except _NOT_CONNECTED:
            return replies.NOT_SENT
        except TimeoutError:
            return replies.TIMED_OUT
        except aiohttp.ClientPayloadError:
            return replies.UNREACHABLE  # It ended in the middle of its answer.
        except (aiohttp.ClientConnectionError, ConnectionError):
            return None
        except _MALFORMED:
            answer = replies.GARBAGE
        if answer.kind is AnswerKind.GARBAGE:
            self._renew()
            # 429 and 5xx with a page of text come from the node's own door or a proxy before it.
            return answer if status == 200 else replies.UNREACHABLE
        if (status == 429 or status >= 500) and answer.kind is AnswerKind.ERROR:
            return msgspec.structs.replace(answer, turned_away=True)
        return answer

    async def _read(self, response: aiohttp.ClientResponse, give_up_at: float) -> NodeAnswer:
        if response.headers.get("Content-Encoding") not in _PLAIN:
            response.close()
            return replies.GARBAGE  # Not asked for; unpacking it is how a small answer becomes a huge one.
        size = response.content_length
        if size is not None and size > self._answer_bytes_max:
            response.close()
            return replies.OVERSIZED
        lease: Lease | None = None
        if size is not None and size <= LARGE_BYTES:
            body: bytes | None = await response.read()
        else:
            body, lease = await self._read_large(response, size, give_up_at)
        if body is None:
            response.close()
            return replies.OVERSIZED
        return replies.judge(body, self._name, lease)

    async def _read_large(
        self, response: aiohttp.ClientResponse, size: int | None, give_up_at: float
    ) -> tuple[bytes | None, Lease | None]:
        """A body that needs room, or one whose length nobody said: twice as much room each time.

        aiohttp reads no further than its buffer while this waits, so the node waits, and so does whoever asked.
        (None, None): it is longer than is taken.
        """
        claimed = 0
        try:
            if size is not None:
                claimed = await self._claim(size, give_up_at)
            parts, received = [], 0
            async for part in response.content.iter_any():
                received += len(part)
                if received > self._answer_bytes_max:
                    return None, None
                if size is None and received > max(claimed, LARGE_BYTES):
                    more = min(max(claimed, 8 * LARGE_BYTES), self._answer_bytes_max)
                    claimed += await self._claim(more, give_up_at)
                parts.append(part)
            lease = Lease(partial(self._room.give_back, claimed)) if claimed else None
            claimed = 0
            return b"".join(parts), lease
        finally:
            if claimed:
                self._room.give_back(claimed)

    async def _claim(self, size: int, give_up_at: float) -> int:
        wait = _Wait()
        if self._room.claim(size, wait.grant):
            return size
        try:
            async with asyncio.timeout_at(give_up_at):
                await wait.future
        except BaseException:
            if wait.is_granted:
                self._room.give_back(size)
            else:
                self._room.withdraw(wait.grant)
            raise
        return size

    def _open(self) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(limit=self._connections_max, keepalive_timeout=_KEPT_SECONDS)
        connector._factory = partial(_Strict, loop=asyncio.get_running_loop())  # type: ignore[assignment]
        self._session = aiohttp.ClientSession(
            connector=connector,
            headers=self._headers,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
        )
        return self._session

    def _renew(self) -> None:
        """After nonsense no kept connection is trusted: new calls get a fresh pool, the old one ends with its calls."""
        loop = asyncio.get_running_loop()
        if self._session is None or loop.time() - self._renewed_at < _RENEW_SECONDS_MIN:
            return
        self._renewed_at = loop.time()
        old, self._session = self._session, None
        task = loop.create_task(_retire(old))
        self._retiring.add(task)
        task.add_done_callback(self._retiring.discard)


class _Strict(ResponseHandler):
    """aiohttp's connection, which ends at bytes that nobody asked for.

    aiohttp itself keeps them, and gives them to whoever is next on this connection as his answer.
    """

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


async def _retire(session: aiohttp.ClientSession) -> None:
    """Close a pool once the calls on it must be over."""
    try:
        await asyncio.sleep(_RETIRE_SECONDS)
    finally:
        await session.close()
