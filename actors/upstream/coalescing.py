"""Identical reads share one request, and answers that are still true are given again.

Implements: "one upstream request for identical reads in flight", the slot-pinned cache and `X-Cache`.
The shell: what is the same and how long it stays true is reads.py, what is kept cache.py, who is asked pool.py.

Nobody gets an answer that is older than his question, unless it cannot change:

- A read of state joins only a request that is not sent yet. While one is under way, those who ask the same gather, and
  the first of them asks for all once it is back. So a thousand at once make two requests.
- A read of what cannot change (a block, a transaction) joins the request under way; if that brings nothing lasting (an
  error, null), whoever came after it was sent asks again with the others.
- An answer pinned to a slot is given again after a node said, asked since, that the slot is still the newest at that
  commitment. That question is shared in the same way.

The first caller of each request does the work in its own task, so sharing costs nothing while nobody shares. When it
leaves, the others ask anew. When its node fails, all have the failure, but those with time left after a timeout ask
again.

Callers who mean the same may write it differently, and the node sees the first caller's bytes alone. An error may be
about those bytes (a node refuses `-0` where it takes `0`), so it is given only to callers who wrote the same; the
others ask again, together with those of the same bytes. Else one caller could have the others' reads refused, at their
expense.
"""

import asyncio

from actors.upstream import cache, reads, replies
from actors.upstream.cache import COALESCED, MISS, Cache, Entry
from actors.upstream.node_health import Commitment
from actors.upstream.reads import Kept, Read
from actors.upstream.replies import AnswerKind, Node, NodeAnswer

_AGAIN_MS_MIN = 100  # Less than this left after a timeout is not worth another request.
_SLOT_PARAMS = {Commitment.CONFIRMED: b'[{"commitment":"confirmed"}]', Commitment.FINALIZED: b"[]"}


class _Outcome:
    """The answer to a request, for all who wait for it: each by itself, as one who leaves must end nobody's waiting."""

    __slots__ = ("_loop", "_waiters", "params")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.params = b""  # As the request was written; there once the answer is.
        self._waiters: list[asyncio.Future[NodeAnswer | None]] = []

    async def wait(self, give_up_at: float) -> NodeAnswer | None:
        """None: whoever asked for all has left; ask anew."""
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
    """Of one key: the request under way, and who gathers for the next."""

    __slots__ = ("finalized_slot", "gathering", "is_under_way", "number", "outcome", "turn")

    def __init__(self) -> None:
        self.number = 0  # Requests are numbered as they are sent, so who came before can be told.
        self.is_under_way = True
        self.finalized_slot: int | None = None  # As it was known when the request was sent.
        self.outcome: _Outcome | None = None  # Of the request under way; made when somebody waits for it.
        self.gathering: _Outcome | None = None
        self.turn: asyncio.Future[None] | None = None  # Wakes the one who asks for those who gathered.


class SharedReads:
    """Belongs to one event loop. Itself a node to whoever calls it."""

    def __init__(self, node: Node, kept: Cache) -> None:
        self._node, self._cache = node, kept
        self._flights: dict[bytes, _Flight] = {}
        self._sent = 0
        self._loop = asyncio.get_running_loop()

    async def call(self, method: str, params: bytes, timeout_ms: int) -> NodeAnswer:
        """As NodeClient.call; the answer also says how it came about."""
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

    async def _still_holds(self, read: Read, entry: Entry, give_up_at: float) -> bool:
        """Ask where the chain is now. No answer is no yes."""
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
        """The shared answer; where an error may be about another caller's bytes, one shared by the same bytes alone."""
        if answer.kind is not AnswerKind.ERROR or outcome.params == params:
            return answer
        same_bytes = Read(b"= %b %b" % (method.encode(), params), Kept.IN_FLIGHT, None)
        return await self._shared(same_bytes, method, params, give_up_at)

    async def _lead(self, flight: _Flight, read: Read, method: str, params: bytes, give_up_at: float) -> NodeAnswer:
        """Ask, for all who gathered too."""
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
        """The request is over; None: its caller has left before the answer came."""
        flight.is_under_way = False
        if flight.outcome is not None:
            flight.outcome.tell(None if answer is None else cache.marked(answer, COALESCED), params)
            flight.outcome = None
        if flight.turn is None:
            del self._flights[read.key]
        elif not flight.turn.done():
            flight.turn.set_result(None)

    async def _take_turn(self, flight: _Flight, read: Read, give_up_at: float) -> bool:
        """The first to gather waits until the request under way is over, then leads. False: its time was over first."""
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
        """Those who gathered find another to ask for them."""
        assert flight.gathering is not None
        flight.gathering.tell(None)
        flight.gathering = flight.turn = None
        if not flight.is_under_way:
            del self._flights[read.key]

    def _came_too_early(self, answer: NodeAnswer, give_up_at: float) -> bool:
        """A timeout is of the one who asked; who came later may have time left."""
        return answer.kind is AnswerKind.TIMED_OUT and (give_up_at - self._loop.time()) * 1000 > _AGAIN_MS_MIN


def _cannot_change(read: Read, flight: _Flight) -> bool:
    """Whether an answer to the request under way is its last word, if it is one: below final, a fork may be lost."""
    if read.commitment is Commitment.FINALIZED:
        return True
    return read.slot is not None and flight.finalized_slot is not None and read.slot <= flight.finalized_slot


def _is_lasting(answer: NodeAnswer) -> bool:
    return answer.kind is AnswerKind.RESULT and not reads.is_null(answer)
