"""Lets identical reads share one request, and answers from the cache where that is still correct.

Implements: "one upstream request for identical reads in flight", the slot-pinned cache and `X-Cache`.
The shell: reads.py decides which reads are equal and how long an answer is valid, cache.py stores answers, pool.py
sends requests.

No caller gets an answer that was read before it asked, unless that answer cannot change:

- A read of state joins only a request that has not been sent yet. Callers that come while a request is unanswered wait
  for the next one, which the first of them sends for all. So a thousand callers at once cause two requests.
- A read of immutable data (a block, a transaction) joins the unanswered request. If that brings an error or null,
  callers that came after it was sent ask again, together.
- An answer pinned to a slot is used again after a node confirmed, asked later, that this slot is still the newest at
  that commitment. That request is shared in the same way.

The first caller of each request does the work in its own task, so an unshared read costs nothing more. When that caller
leaves, the others ask again. When its node fails, all callers get the failure, except that after a timeout those with
time left ask again.

Callers may write equal reads in different bytes, and the node gets those of the first caller. An error may be about
these bytes (a node refuses `-0` where it accepts `0`), so only callers with the same bytes get it; the others ask
again. Otherwise one caller could make the reads of others fail, at their expense.
"""

import asyncio

from actors.upstream import cache, reads, replies
from actors.upstream.cache import COALESCED, MISS, Cache, CachedAnswer
from actors.upstream.node_health import Commitment
from actors.upstream.reads import Kept, Read
from actors.upstream.replies import AnswerKind, Node, NodeAnswer

_AGAIN_MS_MIN = 100  # Less than this left after a timeout is not worth another request.
_SLOT_PARAMS = {Commitment.CONFIRMED: b'[{"commitment":"confirmed"}]', Commitment.FINALIZED: b"[]"}


class _Outcome:
    """The answer to a request, with a future for each waiting caller, so that one that leaves affects no other."""

    __slots__ = ("_loop", "_waiters", "params")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.params = b""  # As the request was written; there once the answer is.
        self._waiters: list[asyncio.Future[NodeAnswer | None]] = []

    async def wait(self, give_up_at: float) -> NodeAnswer | None:
        """Wait for the answer. None: the caller that sent the request has left; ask again."""
        waiter: asyncio.Future[NodeAnswer | None] = self._loop.create_future()
        self._waiters.append(waiter)
        expiry = self._loop.call_at(give_up_at, _tell, waiter, replies.TIMED_OUT)  # A third of asyncio.timeout's cost.
        try:
            return await waiter
        finally:
            expiry.cancel()

    def tell(self, answer: NodeAnswer | None, params: bytes = b"") -> None:
        self.params = params
        for waiter in self._waiters:
            _tell(waiter, answer)


def _tell(waiter: "asyncio.Future[NodeAnswer | None]", answer: NodeAnswer | None) -> None:
    if not waiter.done():
        waiter.set_result(answer)


class _Flight:
    """The state of one key: its unanswered request, and the callers that wait for the next one."""

    __slots__ = ("finalized_slot", "gathering", "is_under_way", "number", "outcome", "turn")

    def __init__(self) -> None:
        self.number = 0  # Requests are numbered as they are sent, so who came before can be told.
        self.is_under_way = True
        self.finalized_slot: int | None = None  # As it was known when the request was sent.
        self.outcome: _Outcome | None = None  # Of the request under way; made when somebody waits for it.
        self.gathering: _Outcome | None = None
        self.turn: asyncio.Future[None] | None = None  # Wakes the one who asks for those who gathered.


class SharedReads:
    """Coalesces reads in one event loop. It is itself a Node for its callers."""

    def __init__(self, node: Node, kept: Cache) -> None:
        self._node, self._cache = node, kept
        self._flights: dict[bytes, _Flight] = {}
        self._sent = 0
        self._loop = asyncio.get_running_loop()

    async def call(self, method: str, params: bytes, timeout_ms: int) -> NodeAnswer:
        """Do as NodeClient.call; the answer also says whether it is a hit, a miss or coalesced."""
        read = reads.read_of(method, params)
        if read is None:
            return await self._node.call(method, params, timeout_ms)
        now = self._loop.time()
        give_up_at = now + timeout_ms / 1000
        if read.kept is not Kept.IN_FLIGHT and self._cache.bytes_max:
            kept = self._cache.forever(read)
            if kept is not None:
                return kept
            entry = self._cache.pinned(read, now)
            if entry is not None and await self._still_holds(read, entry, give_up_at):
                return entry.answer
        if read.key in self._flights:
            return await self._shared(read, method, params, give_up_at)
        # The usual case, and on the path of every call: nobody asks the same.
        flight = self._flights[read.key] = _Flight()
        return await self._lead(flight, read, method, params, give_up_at)

    async def _still_holds(self, read: Read, entry: CachedAnswer, give_up_at: float) -> bool:
        """Ask a node whether the slot is still the newest. Returns False when no node answers."""
        assert read.commitment is not None
        params = _SLOT_PARAMS[read.commitment]
        question = reads.read_of("getSlot", params)
        assert question is not None
        slot = reads.slot_result(await self._shared(question, "getSlot", params, give_up_at))
        if slot is None:
            return False
        self._cache.saw_slot(read.commitment, slot)
        return self._cache.holds(read, entry)

    async def _shared(self, read: Read, method: str, params: bytes, give_up_at: float) -> NodeAnswer:
        arrived = self._sent  # A request that was sent later than this tells what was true after the question came.
        may_join = read.kept is Kept.FOREVER
        while True:
            flight = self._flights.get(read.key)
            if flight is None:
                flight = self._flights[read.key] = _Flight()
                return await self._lead(flight, read, method, params, give_up_at)
            is_later = flight.number > arrived
            if flight.is_under_way and (is_later or (may_join and _cannot_change(read, flight))):
                outcome = flight.outcome = flight.outcome or _Outcome(self._loop)
                answer = await outcome.wait(give_up_at)
                if answer is not None and not self._came_too_early(answer, give_up_at):
                    if is_later or not answer.answered or _is_lasting(answer):
                        return await self._own(answer, outcome, method, params, give_up_at)
                    may_join = False
            elif flight.gathering is None:
                if not await self._take_turn(flight, read, give_up_at):
                    return replies.TIMED_OUT
                return await self._lead(flight, read, method, params, give_up_at)
            else:
                outcome = flight.gathering
                answer = await outcome.wait(give_up_at)
                if answer is not None and not self._came_too_early(answer, give_up_at):
                    return await self._own(answer, outcome, method, params, give_up_at)

    async def _own(
        self, answer: NodeAnswer, outcome: _Outcome, method: str, params: bytes, give_up_at: float
    ) -> NodeAnswer:
        """Return the shared answer; of an error, only one that was caused by the same bytes."""
        if answer.kind is not AnswerKind.ERROR or outcome.params == params:
            return answer
        same_bytes = Read(b"= %b %b" % (method.encode(), params), Kept.IN_FLIGHT, None)
        return await self._shared(same_bytes, method, params, give_up_at)

    async def _lead(self, flight: _Flight, read: Read, method: str, params: bytes, give_up_at: float) -> NodeAnswer:
        """Send the request, also for the callers that wait for it."""
        self._sent += 1
        flight.number = self._sent
        flight.finalized_slot = self._cache.slots.get(Commitment.FINALIZED)
        asked_at = self._loop.time()
        answer: NodeAnswer | None = None
        try:
            answer = await self._node.call(method, params, max(0, int((give_up_at - asked_at) * 1000)))
            self._cache.keep(read, answer, asked_at, flight.finalized_slot)
            return cache.marked(answer, MISS)
        finally:
            self._land(flight, read, params, answer)

    def _land(self, flight: _Flight, read: Read, params: bytes, answer: NodeAnswer | None) -> None:
        """End the request. None: its caller left before the answer came."""
        flight.is_under_way = False
        if flight.outcome is not None:
            flight.outcome.tell(None if answer is None else cache.marked(answer, COALESCED), params)
            flight.outcome = None
        if flight.turn is None:
            del self._flights[read.key]
        elif not flight.turn.done():
            flight.turn.set_result(None)

    async def _take_turn(self, flight: _Flight, read: Read, give_up_at: float) -> bool:
        """Wait until the unanswered request is over, then send the next one.

        False: the caller's time was over first.
        """
        flight.gathering = _Outcome(self._loop)
        flight.turn = self._loop.create_future()
        try:
            async with asyncio.timeout_at(give_up_at):
                await flight.turn
        except BaseException as error:
            self._step_aside(flight, read)
            if isinstance(error, TimeoutError):
                return False
            raise
        flight.is_under_way = True
        flight.outcome, flight.gathering, flight.turn = flight.gathering, None, None
        return True

    def _step_aside(self, flight: _Flight, read: Read) -> None:
        """Let another of the waiting callers send the request."""
        assert flight.gathering is not None
        flight.gathering.tell(None)
        flight.gathering = flight.turn = None
        if not flight.is_under_way:
            del self._flights[read.key]

    def _came_too_early(self, answer: NodeAnswer, give_up_at: float) -> bool:
        """Return whether a timeout counts for the first caller only: callers that joined later may have time left."""
        return answer.kind is AnswerKind.TIMED_OUT and (give_up_at - self._loop.time()) * 1000 > _AGAIN_MS_MIN


def _cannot_change(read: Read, flight: _Flight) -> bool:
    """Whether an answer to the request under way is its last word, if it is one: below final, a fork may be lost."""
    if read.commitment is Commitment.FINALIZED:
        return True
    return read.slot is not None and flight.finalized_slot is not None and read.slot <= flight.finalized_slot


def _is_lasting(answer: NodeAnswer) -> bool:
    return answer.kind is AnswerKind.RESULT and not reads.is_null(answer)
