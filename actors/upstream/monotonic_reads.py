"""Reads whose answers never step back: each is asked of nodes that have reached the floor of its account.

Implements: decisions, "Monotonic reads". The shell: account_view.py has the floors, node_slots.py knows the nodes,
methods/context_slots.py the methods. pool.py asks, hedges and retries as for every read.

A call under a view takes this way; all others pass by it. In front of the nodes stand the same rules of coalescing as
for every read, with the same cache: callers join each other's requests, and an answer that comes from another caller's
request or from the cache is compared with the floor as well. An answer below the floor, or above what is believed, is
no answer, so the pool asks the next node. When no node has reached the floor, the call waits for a short time, without
the place that it may have among the calls under way. All calls that wait ask together: one question to each node, again
and again, however many wait.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextvars import ContextVar
from typing import Any, overload

import orjson

from actors.errors import Err, Refusal
from actors.gathered import Gathered
from actors.methods import context_slots
from actors.methods.context_slots import Monotony
from actors.upstream import replies
from actors.upstream.account_view import AccountView, current_view
from actors.upstream.client import NodeClient
from actors.upstream.coalescing import CoalescedReads
from actors.upstream.held_places import current_place
from actors.upstream.node_health import COMMITMENTS, Commitment
from actors.upstream.node_slots import NEAR_SLOTS, NodeSlots
from actors.upstream.pool import NodePool
from actors.upstream.read_cache import COALESCED, HIT, MISS, ReadCache, marked, read_of
from actors.upstream.replies import AnswerKind, Node, NodeAnswer

WAIT_SECONDS = 2.0  # Five slots: a node that is further behind will not catch up soon.
_POLL_SECONDS = 0.1
_POLL_MS = 500  # A slower node counts as not answering.
_POLLED_AT_ONCE = 4_096
_CONTEXT_WITHIN = 256
_CONTEXT = re.compile(rb'"context":\{[^{}]*?"slot":(\d{1,19})\b')
_EPOCH_SLOT = re.compile(rb'"absoluteSlot":(\d{1,19})\b')
_SEARCHED_BYTES_MAX = 64 << 10  # Size of answers without a context slot, which are parsed.
_SLOT_PARAMS = {level: orjson.dumps([{"commitment": level.name.lower()}]) for level in Commitment}
_BEHIND = replies.slot_not_reached()
_UNKNOWN = replies.refused(
    Refusal(Err.SERVICE_TEMPORARILY_UNAVAILABLE, "no node has told its slot, which a monotonic read needs")
)


class _Question:
    """One read under a view. params: with the minimum slot, where the method takes one."""

    __slots__ = ("commitment", "excluded", "floor", "kept", "method", "own_min", "params", "slot_max")

    def __init__(
        self, method: str, params: bytes, arguments: list[Any], commitment: Commitment, floor: int, slot_max: int
    ) -> None:
        self.method, self.commitment, self.floor, self.slot_max = method, commitment, floor, slot_max
        self.kept = context_slots.kept(method)
        own = context_slots.config_of(method, arguments).get(context_slots.MIN_SLOT)
        self.own_min: int = own if type(own) is int else 0
        least = context_slots.with_min_slot(method, arguments, floor)
        self.params = params if least is None else orjson.dumps(least)
        self.excluded: Collection[int] = ()


_QUESTION: ContextVar[_Question | None] = ContextVar("monotonic_question", default=None)


def commitment_of(method: str, arguments: list[Any]) -> Commitment:
    """Return the commitment at which a node answers a call."""
    if method == "getSignatureStatuses":
        return Commitment.PROCESSED  # Statuses come from a node's newest bank, whatever they say of each signature.
    word = context_slots.config_of(method, arguments).get("commitment")
    return COMMITMENTS.get(word, Commitment.FINALIZED) if word is None or type(word) is str else Commitment.FINALIZED


def slot_of(method: str, answer: NodeAnswer) -> int | None:
    """Return the slot that a result names. None: it names none that can be read."""
    if method == "getSlot":
        value = answer.value()
        return int(value) if value.isdigit() and len(value) <= 19 else None
    if method == "getEpochInfo":
        found = _EPOCH_SLOT.search(answer.body)
    else:
        found = _CONTEXT.search(answer.first, 0, _CONTEXT_WITHIN)
    if found is not None:
        return int(found[1])
    if answer.size > _SEARCHED_BYTES_MAX:
        return None
    value = replies.value_of(answer)  # Another order, or spaces.
    try:
        slot = value["absoluteSlot"] if method == "getEpochInfo" else value["context"]["slot"]
    except (TypeError, KeyError):
        return None
    return slot if type(slot) is int and slot >= 0 else None


class _WatchedNode:
    """One node, as monotonic reads ask it: it notes the slots of its answers, and answers that do not count are told
    as errors and failures, so that the pool asks the next node."""

    def __init__(self, client: NodeClient, index: int, slots: NodeSlots) -> None:
        self._client, self._index, self._slots = client, index, slots

    async def call(self, method: str, params: bytes, timeout_ms: int) -> NodeAnswer:
        answer = await self._client.call(method, params, timeout_ms)
        question = _QUESTION.get()
        if question is None or question.method != method:
            return answer
        commitment = question.commitment
        if replies.lacks_slot(answer):
            if question.own_min <= question.floor:  # Otherwise it may have reached the floor.
                self._slots.refused(self._index, commitment, question.floor)
        elif answer.kind is AnswerKind.RESULT and question.kept is Monotony.SHOWN:
            slot = slot_of(method, answer)
            if slot is None or slot > question.slot_max:
                return replies.GARBAGE
            if slot < question.floor:
                self._slots.refused(self._index, commitment, question.floor)
                return _BEHIND
            self._slots.showed(self._index, commitment, slot)
        return answer


class _FlooredNode:
    """All nodes, as the coalescing of monotonic reads asks them."""

    def __init__(self, pool: NodePool) -> None:
        self._pool = pool

    async def call(self, method: str, params: bytes, timeout_ms: int) -> NodeAnswer:
        question = _QUESTION.get()
        if question is None or question.method != method:
            return await self._pool.call(method, params, timeout_ms)
        return await self._pool.read_without(question.excluded, method, question.params, timeout_ms)


class _WatchedNodes(Sequence[Node]):
    """The nodes by their index, as they are now."""

    def __init__(self, clients: Sequence[NodeClient], slots: NodeSlots) -> None:
        self._clients, self._slots = clients, slots

    def __len__(self) -> int:
        return len(self._clients)

    @overload
    def __getitem__(self, index: int) -> Node: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Node]: ...
    def __getitem__(self, index: int | slice) -> Node | Sequence[Node]:
        if isinstance(index, slice):
            return [self[one] for one in range(*index.indices(len(self)))]
        return _WatchedNode(self._clients[index], index, self._slots)


class MonotonicReads:
    """For one event loop. clients: by their index, which may change while calls run; slots knows which are in use.
    make_pool: makes a pool of these nodes, in their order. others: where all other calls go."""

    def __init__(
        self,
        clients: Sequence[NodeClient],
        slots: NodeSlots,
        make_pool: Callable[[Sequence[Node]], NodePool],
        cache: ReadCache,
        others: Callable[[str, bytes, int], Awaitable[NodeAnswer]],
    ) -> None:
        self._clients, self._slots, self._cache, self._others = clients, slots, cache, others
        self._node = _FlooredNode(make_pool(_WatchedNodes(clients, slots)))
        self._shared = CoalescedReads(self._node, cache)
        self._newest = Gathered(self._ask_newest, _POLLED_AT_ONCE)
        self._loop = asyncio.get_running_loop()

    async def call(self, method: str, params: bytes, timeout_ms: int) -> NodeAnswer:
        """Make a call as NodeClient.call, under the view of this task. A refusal says that no node has reached the
        floor."""
        view = current_view()
        assert view is not None, "asked without a view"
        if context_slots.kept(method) not in (Monotony.SHOWN, Monotony.ASKED, Monotony.PLACED):
            return await self._others(method, params, timeout_ms)
        give_up_at = self._loop.time() + timeout_ms / 1000
        arguments: list[Any] = orjson.loads(params)
        commitment = commitment_of(method, arguments)
        slot_max = self._slots.slot_max(commitment)
        if slot_max is None or not view.is_certain(commitment):
            newest = await self._newest.ask(commitment)
            slot_max = self._slots.slot_max(commitment)
            if newest is None or slot_max is None:
                return _UNKNOWN
            if not view.is_certain(commitment):
                view.make_certain(commitment, newest, slot_max)
        floor = view.floor(commitment, slot_max)
        question = _Question(method, params, arguments, commitment, floor, slot_max)
        answer = await self._answer(question, params, give_up_at)
        self._note(view, method, commitment, floor, answer)
        return answer

    # --- one read

    async def _answer(self, question: _Question, params: bytes, give_up_at: float) -> NodeAnswer:
        if question.floor > question.slot_max:
            return _refused(question)  # The chain has restarted, or the nodes that were ahead are gone.
        wait_until = min(self._loop.time() + WAIT_SECONDS, give_up_at - _POLL_SECONDS)
        asks = True
        before = _QUESTION.set(question)
        try:
            if question.kept is Monotony.SHOWN:
                self._exclude(question)
                answer = await self._shared.call(question.method, params, self._left_ms(give_up_at))
                # Another caller's request named that caller's floor: its error says nothing of this one's minimum.
                is_others = answer.cache == COALESCED and replies.lacks_slot(answer)
                if not is_others and self._counts(question, answer):
                    return answer
                asks = answer.cache in (HIT, COALESCED)  # It was not asked with this floor.
            else:
                read = read_of(question.method, params)
                known = None if read is None else self._cache.permanent(read)
                if known is not None:
                    return known
            is_again = False
            while True:
                if asks and self._exclude(question):
                    left_ms = self._left_ms(give_up_at)
                    answer = await self._node.call(question.method, params, left_ms)
                    answer = marked(answer, MISS) if type(answer) is NodeAnswer else answer
                    if self._counts(question, answer):
                        return answer
                place = current_place()
                if place is not None:
                    place.give_back()
                if is_again:  # A node reports this slot, but answers from an earlier one.
                    await asyncio.sleep(_POLL_SECONDS)
                is_again = True
                if not await self._until_reached(question, wait_until):
                    return _refused(question)
                if place is not None and not await place.take():
                    return replies.TIMED_OUT
                asks = True
        finally:
            _QUESTION.reset(before)

    def _exclude(self, question: _Question) -> bool:
        """Choose the nodes that are not asked. False: none may be."""
        count = len(self._slots.in_use)
        if question.kept is Monotony.PLACED:
            question.excluded = self._slots.without(question.commitment, question.floor)
            return len(question.excluded) < count
        behind = self._slots.without(question.commitment, question.floor - NEAR_SLOTS)
        question.excluded = behind if len(behind) < count else ()
        return True

    def _counts(self, question: _Question, answer: NodeAnswer) -> bool:
        """Return whether this answer ends the read."""
        if answer.kind is AnswerKind.ERROR:
            return not replies.lacks_slot(answer) or question.own_min > question.floor
        if answer.kind is AnswerKind.RESULT and question.kept is Monotony.SHOWN:
            # From another caller's request, or from the cache: those were not compared with this floor.
            slot = slot_of(question.method, answer)
            return slot is not None and question.floor <= slot <= question.slot_max
        return True

    async def _until_reached(self, question: _Question, wait_until: float) -> bool:
        """Wait until a node has reached the floor. False: none has in time."""
        while True:
            newest = await self._newest.ask(question.commitment)
            question.slot_max = self._slots.slot_max(question.commitment) or question.slot_max
            if newest is not None and newest >= question.floor:
                return self._loop.time() < wait_until
            if self._loop.time() + _POLL_SECONDS >= wait_until:
                return False
            await asyncio.sleep(_POLL_SECONDS)

    def _left_ms(self, give_up_at: float) -> int:
        return max(0, int((give_up_at - self._loop.time()) * 1000))

    def _note(self, view: AccountView, method: str, commitment: Commitment, floor: int, answer: NodeAnswer) -> None:
        """Record the slots that an answer shows to its account. Answers without a slot show the floor again."""
        if answer.kind is not AnswerKind.RESULT:
            return
        if context_slots.kept(method) is not Monotony.SHOWN:
            view.show(commitment, floor)
            return
        slot = slot_of(method, answer)
        assert slot is not None, "it was compared"
        view.show(commitment, slot)
        if method == "getSignatureStatuses":
            for level, landed in _landed(answer):
                if landed <= (self._slots.slot_max(level) or 0):
                    view.show(level, landed)

    async def _ask_newest(self, asked: Sequence[Commitment]) -> Sequence[int | None]:
        """Ask every node for its newest slot, once for all waiting callers."""
        levels = sorted(set(asked))
        questions = [(index, level) for level in levels for index in self._slots.in_use]
        answers = await asyncio.gather(
            *(self._clients[index].call("getSlot", _SLOT_PARAMS[level], _POLL_MS) for index, level in questions)
        )
        for (index, level), answer in zip(questions, answers, strict=True):
            slot = slot_of("getSlot", answer) if answer.kind is AnswerKind.RESULT else None
            if slot is not None:
                self._slots.told(index, level, slot)
        return [self._slots.newest(level) for level in asked]


def _landed(answer: NodeAnswer) -> list[tuple[Commitment, int]]:
    """Return the slots of the transactions that this answer calls confirmed: their writes must be visible from now
    on."""
    value = replies.value_of(answer)
    found = []
    for status in value.get("value") or () if type(value) is dict else ():
        if type(status) is dict and type(status.get("slot")) is int and status["slot"] >= 0:
            level = COMMITMENTS.get(status.get("confirmationStatus") or "processed", Commitment.PROCESSED)
            found.append((level, status["slot"]))
    return found


def _refused(question: _Question) -> NodeAnswer:
    detail = (
        f"no node has reached slot {question.floor}, which this account has read at "
        f"{question.commitment.name.lower()} before; ask again, or with X-Consistency: any"
    )
    return replies.refused(Refusal(Err.SERVICE_TEMPORARILY_UNAVAILABLE, detail, retry_seconds=1))
