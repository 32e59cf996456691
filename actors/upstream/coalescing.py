"""Lets identical reads share one request, and answers from the cache where that is still correct.

Implements: "one upstream request for identical reads in shared", the slot-pinned cache and `X-Cache`.
The shell: read_cache.py decides which reads are equal and how long an answer is valid; pool.py sends requests, or
client.py where there is one node.

No caller gets an answer that was read before the caller asked, unless that answer cannot change:

- A read of state joins only a request that has not been sent yet. Callers that come while a request is unanswered wait
  for the next one, which the first of them sends for all. So a thousand callers at once cause two requests.
- A read of immutable data (a block, a transaction) joins the unanswered request. If that brings an error or null,
  callers that came after it was sent ask again, together.
- An answer pinned to a slot is used again after a node confirmed, asked later, that this slot is still the newest at
  that commitment. That request is shared in the same way.

The first caller of each request sends it in its own task, so an unshared read needs no further task. When that caller
leaves, the others ask again. When the node fails, all callers get the failure; after a timeout, callers with time left
ask again.

Callers may write equal reads in different bytes, and the node gets the bytes of the first caller. An error may be about
these bytes (a node refuses `-0` where it accepts `0`), so only callers with the same bytes get the error; the others
ask again. Otherwise one caller could make the reads of others fail.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any

from actors.upstream import read_cache, replies
from actors.upstream.large_bodies import HASHED_FOR
from actors.upstream.node_health import Commitment
from actors.upstream.read_cache import COALESCED, MISS, CachedAnswer, Kept, Read, ReadCache, marked
from actors.upstream.replies import AnswerKind, Node, NodeAnswer

_AGAIN_MS_MIN = 100  # After a timeout, a caller with less time left does not ask again.
_SLOT_PARAMS = {Commitment.CONFIRMED: b'[{"commitment":"confirmed"}]', Commitment.FINALIZED: b"[]"}


class _Outcome:
    """The answer to a request, with one future for each waiting caller, so that a caller can leave alone.

    refused: the account that has its share of memory, where that is why the request had no answer.
    """

    __slots__ = ("_loop", "_waiters", "params", "refused")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.params = self.refused = b""  # Parameters of the request; set together with the answer.
        self._waiters: list[asyncio.Future[NodeAnswer | None]] = []

    async def wait(self, give_up_at: float) -> NodeAnswer | None:
        """Wait for the answer. None: the caller that sent the request has left; ask again."""
        waiter: asyncio.Future[NodeAnswer | None] = self._loop.create_future()
        self._waiters.append(waiter)
        expiry = self._loop.call_at(
            give_up_at, _tell, waiter, replies.TIMED_OUT
        )  # Takes a third of the time of asyncio.timeout.
        try:
            return await waiter
        finally:
            expiry.cancel()

    def tell(self, answer: NodeAnswer | None, params: bytes = b"", refused: bytes = b"") -> None:
        self.params, self.refused = params, refused
        for waiter in self._waiters:
            _tell(waiter, answer)


def _tell(waiter: "asyncio.Future[NodeAnswer | None]", answer: NodeAnswer | None) -> None:
    if not waiter.done():
        waiter.set_result(answer)


class _SharedRead:
    """The state of one key: its unanswered request, and the callers that wait for the next one."""

    __slots__ = ("finalized_slot", "is_unanswered", "next_outcome", "number", "outcome", "turn")

    def __init__(self) -> None:
        self.number = 0  # Number of the request in the order of sending; tells which callers came before.
        self.is_unanswered = True
        self.finalized_slot: int | None = None  # The highest known slot when the request was sent.
        self.outcome: _Outcome | None = None  # Outcome of the unanswered request; made for the first waiting caller.
        self.next_outcome: _Outcome | None = None  # Outcome of the next request, for its waiting callers.
        self.turn: asyncio.Future[None] | None = None  # Wakes the caller that sends the next request.


class CoalescedReads:
    """Coalesces reads in one event loop, and is a Node for its callers."""

    def __init__(self, node: Node, cache: ReadCache) -> None:
        self._node, self._cache = node, cache
        self._shared_reads: dict[bytes, _SharedRead] = {}
        self._sent = 0
        self._loop = asyncio.get_running_loop()

    def ask_from_now_on(self, node: Node) -> None:
        """Send requests to this node or pool; running ones stay where they are."""
        self._node = node

    def call(self, method: str, params: bytes, timeout_ms: int) -> Coroutine[Any, Any, NodeAnswer]:
        """Make a call as NodeClient.call; the answer of a read also says hit, miss or coalesced."""
        read = read_cache.read_of(method, params)
        if read is None:
            return self._node.call(method, params, timeout_ms)
        give_up_at = self._loop.time() + timeout_ms / 1000
        if read.kept is not Kept.IN_FLIGHT and self._cache.bytes_max:
            return self._from_cache(read, method, params, give_up_at)
        return self._shared(read, method, params, give_up_at)

    async def _from_cache(self, read: Read, method: str, params: bytes, give_up_at: float) -> NodeAnswer:
        kept = self._cache.permanent(read)
        if kept is not None:
            return kept
        entry = self._cache.pinned(read, self._loop.time())
        if entry is not None and await self._still_holds(read, entry, give_up_at):
            return entry.answer
        return await self._shared(read, method, params, give_up_at)

    async def _still_holds(self, read: Read, entry: CachedAnswer, give_up_at: float) -> bool:
        """Ask a node whether the slot is still the newest. Returns False when no node answers."""
        assert read.commitment is not None
        params = _SLOT_PARAMS[read.commitment]
        question = read_cache.read_of("getSlot", params)
        assert question is not None
        slot = read_cache.slot_result(await self._shared(question, "getSlot", params, give_up_at))
        if slot is None:
            return False
        self._cache.saw_slot(read.commitment, slot)
        return self._cache.holds(read, entry)

    async def _shared(self, read: Read, method: str, params: bytes, give_up_at: float) -> NodeAnswer:
        arrived = self._sent  # A request with a higher number was sent after this caller came.
        may_join = read.kept is Kept.FOREVER
        while True:
            shared = self._shared_reads.get(read.key)
            if shared is None:
                shared = self._shared_reads[read.key] = _SharedRead()
                return await self._lead(shared, read, method, params, give_up_at)
            is_later = shared.number > arrived
            if shared.is_unanswered and (is_later or (may_join and _cannot_change(read, shared))):
                outcome = shared.outcome = shared.outcome or _Outcome(self._loop)
                answer = await outcome.wait(give_up_at)
                if answer is not None and not self._came_too_early(answer, outcome, give_up_at):
                    if is_later or not answer.answered or _is_lasting(answer):
                        return await self._own(answer, outcome, method, params, give_up_at)
                    may_join = False
            elif shared.next_outcome is None:
                if not await self._take_turn(shared, read, give_up_at):
                    return replies.TIMED_OUT
                return await self._lead(shared, read, method, params, give_up_at)
            else:
                outcome = shared.next_outcome
                answer = await outcome.wait(give_up_at)
                if answer is not None and answer.kind is AnswerKind.RESULT:  # The usual end of a shared read.
                    return answer
                if answer is not None and not self._came_too_early(answer, outcome, give_up_at):
                    return await self._own(answer, outcome, method, params, give_up_at)

    async def _own(
        self, answer: NodeAnswer, outcome: _Outcome, method: str, params: bytes, give_up_at: float
    ) -> NodeAnswer:
        """Return the shared answer. An error is shared only between callers with the same bytes."""
        if answer.kind is not AnswerKind.ERROR or outcome.params == params:
            return answer
        same_bytes = Read(b"= %b %b" % (method.encode(), params), Kept.IN_FLIGHT, None)
        return await self._shared(same_bytes, method, params, give_up_at)

    async def _lead(self, shared: _SharedRead, read: Read, method: str, params: bytes, give_up_at: float) -> NodeAnswer:
        """Send the request, also for the callers that wait for it."""
        self._sent += 1
        shared.number = self._sent
        shared.finalized_slot = self._cache.slots.get(Commitment.FINALIZED)
        asked_at = self._loop.time()
        answer: NodeAnswer | None = None
        try:
            answer = await self._node.call(method, params, max(0, int((give_up_at - asked_at) * 1000)))
            self._cache.keep(read, answer, asked_at, shared.finalized_slot)
            return marked(answer, MISS)
        finally:
            refused = _account() if answer is replies.NO_ROOM and self._has_time(give_up_at) else b""
            self._land(shared, read, params, answer, refused)

    def _land(self, shared: _SharedRead, read: Read, params: bytes, answer: NodeAnswer | None, refused: bytes) -> None:
        """End the request. answer=None: its caller left before the answer came."""
        shared.is_unanswered = False
        if shared.outcome is not None:
            shared.outcome.tell(None if answer is None else marked(answer, COALESCED), params, refused)
            shared.outcome = None
        if shared.turn is None:
            del self._shared_reads[read.key]
        elif not shared.turn.done():
            shared.turn.set_result(None)

    async def _take_turn(self, shared: _SharedRead, read: Read, give_up_at: float) -> bool:
        """Wait for the turn to send the next request. False: the caller's time was over first."""
        shared.next_outcome = _Outcome(self._loop)
        shared.turn = self._loop.create_future()
        try:
            async with asyncio.timeout_at(give_up_at):
                await shared.turn
        except BaseException as error:
            self._give_up_turn(shared, read)
            if isinstance(error, TimeoutError):
                return False
            raise
        shared.is_unanswered = True
        shared.outcome, shared.next_outcome, shared.turn = shared.next_outcome, None, None
        return True

    def _give_up_turn(self, shared: _SharedRead, read: Read) -> None:
        """Let another of the waiting callers send the request."""
        assert shared.next_outcome is not None
        shared.next_outcome.tell(None)
        shared.next_outcome = shared.turn = None
        if not shared.is_unanswered:
            del self._shared_reads[read.key]

    def _came_too_early(self, answer: NodeAnswer, outcome: _Outcome, give_up_at: float) -> bool:
        """Return whether a failure counts for the first caller only: callers that joined later may have time left after
        its timeout, and memory where its account has its share. Callers of that account have none either: if each
        of them asked again, others who wait for the same read would wait for one after the other."""
        is_its_own = answer.kind is AnswerKind.TIMED_OUT or answer is replies.NO_ROOM
        if not is_its_own or (outcome.refused and outcome.refused == _account()):
            return False
        return self._has_time(give_up_at)

    def _has_time(self, give_up_at: float) -> bool:
        return (give_up_at - self._loop.time()) * 1000 > _AGAIN_MS_MIN


def _account() -> bytes:
    """Return the account for which this task asks; empty: for none."""
    asked = HASHED_FOR.get()
    return b"" if asked is None else asked[2]


def _cannot_change(read: Read, shared: _SharedRead) -> bool:
    """Return whether a result of the unanswered request is final. A block below finalized may be of a lost fork."""
    if read.commitment is Commitment.FINALIZED:
        return True
    return read.slot is not None and shared.finalized_slot is not None and read.slot <= shared.finalized_slot


def _is_lasting(answer: NodeAnswer) -> bool:
    return answer.kind is AnswerKind.RESULT and not read_cache.is_null(answer)
