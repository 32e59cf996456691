"""Calls one node, each call with its own id, and judges the answers.

Implements: design, section 4, step 4; hostile inputs 15 and 47 (hangs, resets, endless and compressed answers, late and
second answers, doors that say no); decisions 3.5 (one call per request, never a batch).
The shell: connections are kept_connections.py (single_connections.py where aiohttp is not as that knows it); no rule
about what an answer means (replies.py) or costs (gateway/outcomes.py).
"""

import asyncio
import itertools
import logging
import secrets
from functools import cache, partial
from typing import Any

import aiohttp
import msgspec

from actors.config import UpstreamConfig
from actors.upstream import replies
from actors.upstream.address import NodeAddress, node_address
from actors.upstream.connections import Connections, NotAsKnown
from actors.upstream.memory_budget import LARGE_BYTES, Room
from actors.upstream.method_lanes import may_repeat
from actors.upstream.replies import AnswerKind, Lease, NodeAnswer
from actors.upstream.single_connections import SingleConnections

logger = logging.getLogger(__name__)

_PLAIN = (None, "", "identity")
# Ids have fifteen digits, which every JSON parser keeps, and begin at a random number: two replicas' ids are different,
# so a proxy before the node that mixes connections up is noticed, and an id tells nobody how many calls there were.
_FIRST_ID_MIN, _FIRST_ID_MAX = 10**14, 5 * 10**14
_OK = 200
_ERRORS = range(400, 600)
_DOORS_NO = (401, 402, 403, 407)  # Said about our access to the node, whatever the body is, and not about the call.


class NodeClient:
    """Belongs to one event loop. Connections are opened as needed, kept, and dropped on any irregularity.

    name: what answers say of who served them. room: what the large answers of all nodes share.
    """

    def __init__(self, config: UpstreamConfig, node_url: str, name: str = "", room: Room | None = None) -> None:
        self._address = node_address(node_url)
        self._name = name
        self._room = room or Room(config.large_answers_bytes_max)
        self._answer_bytes_max = config.answer_bytes_max
        self._connections_max = config.connections_max
        self._connections: Connections | None = None  # Made by the first call, in the loop that it runs in.
        self._ids = itertools.count(_FIRST_ID_MIN + secrets.randbelow(_FIRST_ID_MAX - _FIRST_ID_MIN))
        self._is_closed = False

    async def call(self, method: str, params: bytes, timeout_ms: int) -> NodeAnswer:
        """Ask once. params: the bytes of a JSON array. Every way it can go wrong is a kind of answer; raises nothing.

        A read is asked a second time when its connection was closed before an answer began, which happens to kept ones
        whenever a node restarts or tidies up. A send never is, as nobody knows whether the node had it; it takes a
        connection that was used just now, or a new one. NOT_SENT: nothing of the call has left.
        """
        give_up_at = asyncio.get_running_loop().time() + timeout_ms / 1000
        try:
            async with asyncio.timeout_at(give_up_at):
                answer = await self._ask(method, params)
                if answer is None and may_repeat(method):
                    answer = await self._ask(method, params)
        except TimeoutError:
            return replies.TIMED_OUT
        return replies.UNREACHABLE if answer is None else answer

    async def close(self) -> None:
        """Close all connections; calls in flight end as UNREACHABLE."""
        self._is_closed = True
        if self._connections is not None:
            await self._connections.close()

    async def _ask(self, method: str, params: bytes) -> NodeAnswer | None:
        """Send the request and read its answer. None: the connection was closed before an answer began."""
        if self._is_closed:
            return replies.UNREACHABLE
        if self._connections is None:
            self._connections = _connections_to(self._address, self._connections_max)
        request_id = b"%d" % next(self._ids)
        # The id comes last, so a node that has it has read the whole request.
        body = b'{"jsonrpc":"2.0","method":"%b","params":%b,"id":%b}' % (method.encode(), params, request_id)
        connections = self._connections
        try:
            return await connections.exchange(body, request_id, self._answer)
        except NotAsKnown as error:
            _warn_of_single_connections(str(error))
            if self._connections is connections:  # It kept nothing; whoever is still at it finds the same.
                self._connections = SingleConnections(self._address, self._connections_max)
            return await self._connections.exchange(body, request_id, self._answer)

    async def _answer(
        self, request_id: bytes, status: int, headers: Any, is_chunked: bool, payload: aiohttp.StreamReader
    ) -> NodeAnswer:
        """As connections.ReadAnswer. A result comes with status 200 alone, a JSON-RPC error with 4xx and 5xx too."""
        if status == _OK:
            return await self._read(request_id, headers, is_chunked, payload)
        if status not in _ERRORS or status in _DOORS_NO:
            return replies.UNREACHABLE
        answer = await self._read(request_id, headers, is_chunked, payload)
        if answer.kind is not AnswerKind.ERROR:
            return replies.UNREACHABLE  # A page of text: the node's own door, or a proxy before it.
        return msgspec.structs.replace(answer, turned_away=True) if status == 429 or status >= 500 else answer

    async def _read(
        self, request_id: bytes, headers: Any, is_chunked: bool, payload: aiohttp.StreamReader
    ) -> NodeAnswer:
        if headers.get("Content-Encoding") not in _PLAIN:
            return replies.GARBAGE  # Not asked for; unpacking it is how a small answer becomes a huge one.
        length = None if is_chunked else headers.get("Content-Length")
        if length is None and not is_chunked:
            return replies.GARBAGE  # It would end with its connection, so one that was cut would look whole.
        size = None if length is None else int(length)  # The parser has let digits only through.
        if size is not None and size > self._answer_bytes_max:
            return replies.OVERSIZED
        if size is not None and size <= LARGE_BYTES:
            return replies.judge(await payload.read(), self._name, request_id=request_id)
        body, lease = await self._read_large(payload, size)
        return replies.OVERSIZED if body is None else replies.judge(body, self._name, lease, request_id)

    async def _read_large(self, payload: aiohttp.StreamReader, size: int | None) -> tuple[bytes | None, Lease | None]:
        """A body that needs room, or a chunked one, whose length is not known: that claims twice as much each time.

        aiohttp reads no further than its buffer while this waits, so the node waits, and so does the caller.
        (None, None): the body is longer than upstream.answer_bytes_max.
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


class _Wait:
    """One caller that waits for memory."""

    def __init__(self) -> None:
        self.future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.is_granted = False

    def grant(self) -> None:
        self.is_granted = True
        if not self.future.done():  # Else the caller has left, and gives the room back.
            self.future.set_result(None)


def _connections_to(address: NodeAddress, connections_max: int) -> Connections:
    try:
        # Here, not above: it names parts of aiohttp that another version may not have.
        from actors.upstream.kept_connections import KeptConnections

        return KeptConnections(address, connections_max)
    except (ImportError, NotAsKnown) as error:
        _warn_of_single_connections(str(error))
        return SingleConnections(address, connections_max)


@cache
def _warn_of_single_connections(reason: str) -> None:
    """Once in a process for each reason, however many nodes there are."""
    logger.warning("this aiohttp is not as expected (%s): every call to a node opens its own connection", reason)
