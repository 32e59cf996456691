"""Calls one node, each call with its own id, and judges the answers.

Implements: design, "One billed call", step 4; threats 15 and 47 (hangs, resets, endless and compressed answers, late
and second answers, refused access); decisions, "Batches towards the node" (one call per request, never a batch).
The shell: replies.py decides what an answer means, gateway/calls/outcomes.py what it costs.
"""

import asyncio
import itertools
import logging
import secrets
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import suppress
from functools import cache, partial
from hashlib import sha256
from typing import Any

import aiohttp
import msgspec

from actors.config import UpstreamConfig
from actors.units import parse_pubkey
from actors.upstream import replies
from actors.upstream.connections import (
    BodyReader,
    Connections,
    NodeAddress,
    SingleConnections,
    UnsupportedAiohttp,
    node_address,
)
from actors.upstream.large_bodies import HASHED_FOR, LargeBody
from actors.upstream.memory_budget import LARGE_BYTES, MemoryBudget, NoRoom
from actors.upstream.method_lanes import may_repeat
from actors.upstream.replies import AnswerKind, Lease, NodeAnswer
from actors.upstream.side_hash import SideHash
from actors.upstream.socket_bodies import SocketBody
from actors.upstream.whole_bodies import joined

logger = logging.getLogger(__name__)

_UNCOMPRESSED = (None, "", "identity")
# Ids have fifteen digits, which every JSON parser keeps. They start at a random number, so two replicas use different
# ids: a proxy that mixes up their connections is noticed, and an id does not reveal the number of calls.
_FIRST_ID_MIN, _FIRST_ID_MAX = 10**14, 5 * 10**14
_OK = 200
_ERRORS = range(400, 600)
_TOO_MANY = 429
_RETRY_SECONDS_MAX = 60  # Another node, or another replica, may take calls again long before.
# Shorter bodies are hashed in the event loop, part by part, 0.25 ms at once and 1 ms in all; a thread would have to be
# woken for them and waited for, which takes as long where the node is fast, and longer on a busy machine.
_HASHED_BESIDE_BYTES_MIN = 2 << 20
_HASHED_HERE_MAX = 4  # Bodies at a time. Of more, which may all come in one turn of the loop, others would feel it.
_HASH_ANSWER_BYTES_MAX = 1_024
_REFUSING_SECONDS = 0.05  # Before a call's time is over, it is told that there is no memory for its answer.
_ACCESS_REFUSED = (401, 402, 403, 407)  # These statuses concern our access to the node, not the call.


class NodeClient:
    """Belongs to one event loop. It opens connections as needed, keeps them, and drops them on any irregularity.

    name: the name of the node in its answers. budget: the memory that the large answers of all nodes share.
    """

    def __init__(
        self, config: UpstreamConfig, node_url: str, name: str = "", budget: MemoryBudget | None = None
    ) -> None:
        self._address = node_address(node_url)
        self._name = name
        self._budget = budget or MemoryBudget(config.large_answers_bytes_max)
        self._answer_bytes_max = config.answer_bytes_max
        self._connections_max = config.connections_max
        self._connections: Connections | None = None  # The first call makes them, in the loop that it runs in.
        self._ids = itertools.count(_FIRST_ID_MIN + secrets.randbelow(_FIRST_ID_MAX - _FIRST_ID_MIN))
        self._is_closed = False
        self.in_flight = self.calls = 0  # Calls in flight, and since the start.
        self._hashed_here = 0  # Bodies that are being read and hashed in the loop.
        self._idle: asyncio.Event | None = None

    def call(self, method: str, params: bytes, timeout_ms: int) -> Coroutine[Any, Any, NodeAnswer]:
        """Make one call. params: the bytes of a JSON array. Raises nothing: every failure is a kind of answer.

        A read is sent a second time when its connection closed before an answer began, as kept connections do when a
        node restarts. A send is never repeated, because the node may have received it; it uses a connection that was
        used within seconds, or a new one. NOT_SENT: no byte of the call was sent.
        """
        return self._timed(method, params, timeout_ms, None, 1)

    async def until_idle(self) -> None:
        """Wait until no call is in flight."""
        while self.in_flight:
            self._idle = asyncio.Event()
            await self._idle.wait()

    def ask(
        self, method: str, params: bytes, timeout_ms: int, bytes_max: int | None = None
    ) -> Coroutine[Any, Any, NodeAnswer]:
        """Do as `call`, for a question of this service itself, such as a probe: it is not counted.

        bytes_max: of the answer, where its form is known: reading a hostile node's megabytes would block the event
        loop.
        """
        return self._timed(method, params, timeout_ms, bytes_max, 0)

    async def _timed(
        self, method: str, params: bytes, timeout_ms: int, bytes_max: int | None, counted: int
    ) -> NodeAnswer:
        """Ask within the time. counted: 1 for a call, 0 for a question of this service."""
        self.calls += counted
        self.in_flight += counted
        give_up_at = asyncio.get_running_loop().time() + timeout_ms / 1000
        try:
            async with asyncio.timeout_at(give_up_at):
                answer = await self._ask(method, params, bytes_max, give_up_at)
                if answer is None and may_repeat(method):
                    answer = await self._ask(method, params, bytes_max, give_up_at)
        except TimeoutError:
            return replies.TIMED_OUT
        finally:
            self.in_flight -= counted
            if self._idle is not None and not self.in_flight:
                self._idle.set()
        return replies.UNREACHABLE if answer is None else answer

    async def network(self, timeout_ms: int) -> str | None:
        """Ask for the genesis hash. None: the node tells none, or a text that is no hash and goes to no operator."""
        told = replies.value_of(await self.ask("getGenesisHash", b"[]", timeout_ms, _HASH_ANSWER_BYTES_MAX))
        return told if isinstance(told, str) and parse_pubkey(told) is not None else None

    async def close(self) -> None:
        """Close all connections; calls in flight end as UNREACHABLE."""
        self._is_closed = True
        if self._connections is not None:
            await self._connections.close()

    async def _ask(self, method: str, params: bytes, bytes_max: int | None, give_up_at: float) -> NodeAnswer | None:
        """Send the request and read its answer. None: the connection closed before an answer began."""
        if self._is_closed:
            return replies.UNREACHABLE
        if self._connections is None:
            self._connections = _connections_to(self._address, self._connections_max)
        request_id = b"%d" % next(self._ids)
        # The id comes last: a node that answers with it has read the whole request.
        body = b'{"jsonrpc":"2.0","method":"%b","params":%b,"id":%b}' % (method.encode(), params, request_id)
        connections = self._connections
        most = self._answer_bytes_max if bytes_max is None else bytes_max
        read = partial(self._answer, bytes_max=most, give_up_at=give_up_at - _REFUSING_SECONDS)
        try:
            return await connections.exchange(body, request_id, read, self._further_headers())
        except UnsupportedAiohttp as error:
            _warn_of_single_connections(str(error))
            if self._connections is connections:  # Calls in flight on the old connections fail in the same way.
                self._connections = SingleConnections(self._address, self._connections_max)
            return await self._connections.exchange(body, request_id, read, self._further_headers())

    def _further_headers(self) -> bytes:
        """Return further headers of the running call: whole lines. None here; traced_node.py has some."""
        return b""

    async def _answer(
        self,
        request_id: bytes,
        status: int,
        headers: Any,
        is_chunked: bool,
        payload: BodyReader,
        *,
        bytes_max: int,
        give_up_at: float,
    ) -> NodeAnswer:
        """Read an answer as ReadAnswer. A result needs status 200; a JSON-RPC error may come with 4xx and 5xx too.

        give_up_at: waiting for memory, in the time of the loop.
        """
        bounds = bytes_max, give_up_at
        if status == _OK:
            return await self._read(request_id, headers, is_chunked, payload, *bounds)
        if status == _TOO_MANY:  # The node has not taken the call, so no body of it is an answer.
            return replies.overloaded(_retry_seconds(headers.get("Retry-After", "")))
        if status not in _ERRORS or status in _ACCESS_REFUSED:
            return replies.UNREACHABLE
        answer = await self._read(request_id, headers, is_chunked, payload, *bounds)
        if answer.kind is not AnswerKind.ERROR:
            return replies.UNREACHABLE  # The node's HTTP server, or a proxy before it, sent a page of text.
        return msgspec.structs.replace(answer, turned_away=True) if status >= 500 else answer

    async def _read(
        self,
        request_id: bytes,
        headers: Any,
        is_chunked: bool,
        payload: BodyReader,
        bytes_max: int,
        give_up_at: float,
    ) -> NodeAnswer:
        if headers.get("Content-Encoding") not in _UNCOMPRESSED:
            return replies.GARBAGE  # Compression was not asked for, and a small answer may unpack to a huge one.
        length = None if is_chunked else headers.get("Content-Length")
        if length is None and not is_chunked:
            return replies.GARBAGE  # Such a body ends with its connection, so a cut one would look complete.
        size = None if length is None else int(length)  # aiohttp's parser lets only digits pass.
        if size is not None and size > bytes_max:
            return replies.OVERSIZED
        if size is not None and size <= replies.VALIDATED_BYTES_MAX and not isinstance(payload, SocketBody):
            # Usually the body came with the head; waiting for it would be twenty calls of functions more.
            body = payload.read_nowait() if payload.is_eof() else await payload.read()
            return replies.judge(body, self._name, request_id=request_id)
        try:
            return await self._read_large(request_id, payload, size, bytes_max, give_up_at)
        except NoRoom:  # Of the parts of a composed answer, nobody's share is taken.
            return replies.TIMED_OUT if HASHED_FOR.get() is None else replies.NO_ROOM

    async def _read_large(
        self, request_id: bytes, payload: BodyReader, size: int | None, bytes_max: int, give_up_at: float
    ) -> NodeAnswer:
        """Read a large body, or a chunked one, whose length is unknown: it claims twice as much memory each time.

        aiohttp reads no more than its buffer while this waits, so the node waits too.
        """
        asked = HASHED_FOR.get()
        is_here = asked is not None and size is not None and size < _HASHED_BESIDE_BYTES_MIN
        is_here = is_here and self._hashed_here < _HASHED_HERE_MAX
        claimed, body = 0, LargeBody(asked, sha256 if is_here else SideHash)
        account = b"" if asked is None else asked[2]
        self._hashed_here += is_here
        try:
            if size is not None and size > LARGE_BYTES:
                claimed = await self._budget.claim(size, account, give_up_at)
            if isinstance(payload, SocketBody):
                await payload.into(body.add)  # It is no longer than its length says, which is claimed.
            else:
                async for part in _pieces(payload, size is not None):
                    body.add(part)
                    if body.size > bytes_max:
                        return replies.OVERSIZED
                    if size is None and body.size > max(claimed, LARGE_BYTES):
                        more = min(max(claimed, 8 * LARGE_BYTES), bytes_max - claimed)
                        claimed += await self._budget.claim(more, account, give_up_at)
            if isinstance(body.hash, SideHash):
                await body.hash.caught_up()
            lease = None if not claimed else self._lease(claimed, account)
            claimed = 0
        except BaseException:
            body.drop()
            if isinstance(body.hash, SideHash):
                body.hash.drop()
            raise
        finally:
            self._hashed_here -= is_here
            if claimed:
                self._budget.give_back(claimed, account)
        answer = replies.judge_large(body, self._name, lease, request_id)
        if answer is not None:
            return answer
        return replies.judge(await joined(body.parts()), self._name, lease, request_id)

    def _lease(self, claimed: int, account: bytes) -> Lease:
        holding = self._budget.arrived(claimed, account)
        give_back = partial(self._budget.give_back, claimed, account, holding)
        return Lease(partial(_in_thread_of, asyncio.get_running_loop(), threading.get_ident(), give_back), holding)


def _in_thread_of(loop: asyncio.AbstractEventLoop, thread: int, give_back: Callable[[], None]) -> None:
    """A thread that hashed an answer may be the last to drop it, as when its client has left. But the budget belongs to
    the loop's thread: another one would wake no claim, and change what the loop may be looking through."""
    if threading.get_ident() == thread:
        give_back()
        return
    with suppress(RuntimeError):  # The loop is closed, and nobody waits.
        loop.call_soon_threadsafe(give_back)


async def _pieces(payload: aiohttp.StreamReader, is_one: bool) -> AsyncIterator[bytes]:
    """Yield a body as it arrives. is_one: it is not chunked. Chunks may be a byte each, so what is there is joined.
    What was read from a socket is large by itself, and a copy of it costs a third of its reading."""
    if not is_one:
        async for piece in payload.iter_any():
            yield piece
    else:
        async for piece, _ in payload.iter_chunks():
            yield piece


def _retry_seconds(text: str) -> int | None:
    """How long a node asks to be left alone. None: it does not say, or by a date of its own clock."""
    return max(1, min(int(text[:9]), _RETRY_SECONDS_MAX)) if text.isascii() and text.isdigit() else None


def _connections_to(address: NodeAddress, connections_max: int) -> Connections:
    try:
        # The import stands here because the module names parts of aiohttp that another version may lack.
        from actors.upstream.kept_connections import KeptConnections

        return KeptConnections(address, connections_max)
    except (ImportError, UnsupportedAiohttp) as error:
        _warn_of_single_connections(str(error))
        return SingleConnections(address, connections_max)


@cache
def _warn_of_single_connections(reason: str) -> None:
    """Log a reason once in a process, however many nodes there are."""
    logger.warning("this aiohttp is not as expected (%s): every call to a node opens its own connection", reason)
