"""Sends each call to the best of several nodes, and to another one where that is safe.

Implements: node pool (weighted choice, hedged reads, retry of reads only within the class's timeout, never of sends).
The shell: node_selection.py chooses the node, hedging.py limits second requests, client.py calls one node.

A read that fails is sent to the next node. A late read is also sent to a second node: the first answer is used, and the
connection of the other request is closed. A send goes to one node, once; another node is tried only when no byte of the
send has left, or the node has refused to take it (HTTP 429). A JSON-RPC error is an answer too; only an error about the
node itself (such as "behind") makes a read try another node. No call has a task of its own until it is late.
"""

import asyncio
from collections.abc import Collection, Coroutine, Sequence
from typing import Any

from actors.upstream import replies
from actors.upstream.hedging import Hedges
from actors.upstream.method_lanes import Lane, is_of_history, lane_of
from actors.upstream.node_selection import NodeSelection, State, min_slot_of
from actors.upstream.replies import AnswerKind, Node, NodeAnswer, RefusedAnswer

_BEHIND_AFTER_SECONDS = 0.5  # A lagging node gets a late read only when no better node has answered for this long.
_DELAY_GROWTH = 2  # Each check of a late call waits twice as long as the one before.


class NodePool:
    """A pool for one event loop. clients: one for each node of the selection, by its index; both may change."""

    def __init__(self, selection: NodeSelection, clients: Sequence[Node], hedges: Hedges) -> None:
        self._selection, self._clients, self.hedges = selection, clients, hedges
        self._loop = asyncio.get_running_loop()

    def call(self, method: str, params: bytes, timeout_ms: int) -> Coroutine[Any, Any, NodeAnswer]:
        """Make a call as NodeClient.call."""
        lane = lane_of(method)
        if lane is Lane.SEND:
            return self._send(method, params, timeout_ms)
        return self._read(_PooledRead(method, params, timeout_ms, lane))

    def read_without(
        self, excluded: Collection[int], method: str, params: bytes, timeout_ms: int
    ) -> Coroutine[Any, Any, NodeAnswer]:
        """Make a read as call(), and ask none of these nodes. The caller has chosen by slots, so nothing here does."""
        read = _PooledRead(method, b"", timeout_ms, lane_of(method))  # Without parameters: they need not be parsed.
        read.params, read.tried = params, list(excluded)
        return self._read(read)

    async def _send(self, method: str, params: bytes, timeout_ms: int) -> NodeAnswer:
        min_slot = min_slot_of(params)
        give_up_at = self._loop.time() + timeout_ms / 1000
        tried: list[int] = []
        answer = replies.UNREACHABLE
        while (remaining_ms := self._remaining_ms(give_up_at)) > 0:
            index = self._selection.choose(Lane.SEND, False, self._now_ms(), tried, min_slot)
            if index is None:
                break
            tried.append(index)
            ticket = self._selection.all[index].breakers[Lane.SEND].begin()
            answer = await self._ask(index, Lane.SEND, ticket, method, params, remaining_ms)
            if answer is not replies.NOT_SENT and not isinstance(answer, RefusedAnswer):
                break
        return answer

    async def _read(self, read: "_PooledRead") -> NodeAnswer:
        self.hedges.read_began()
        answer = await self.ask_from(self.next_node(read, State.FAILING), read, State.FAILING)
        return answer if read.is_answered_by(answer) else read.second_best or answer

    async def ask_from(self, index: int | None, read: "_PooledRead", worst: State) -> NodeAnswer:
        """Ask this node, then each next one that is in no worse state, until an answer ends the read."""
        answer = replies.UNREACHABLE
        while index is not None:
            answer = await self._ask_watched(index, read)
            if read.is_answered_by(answer) or self._remaining_ms(read.give_up_at) <= 0:
                break
            index = self.next_node(read, worst)
        return answer

    async def _ask_watched(self, index: int, read: "_PooledRead") -> NodeAnswer:
        """Ask one node, and a second one when it is late. The first answer that ends the read is used."""
        breaker = self._selection.all[index].breakers[read.lane]
        ticket = breaker.begin()
        hedge = _Hedge(self, read, index)
        try:
            remaining_ms = self._remaining_ms(read.give_up_at)
            answer = await self._ask(index, read.lane, ticket, read.method, read.params, remaining_ms)
        except asyncio.CancelledError:
            if not hedge.ends_the_wait():
                raise
            # Another node answered first, so this call counts as failed: this reveals a hanging node.
            breaker.ended(ticket, False, self._now_ms())
            assert hedge.won is not None
            return hedge.won
        except BaseException:
            hedge.stop()
            raise
        if hedge.running is not None and not read.is_answered_by(answer):
            return await hedge.result(answer)
        hedge.stop()
        return answer

    async def _ask(
        self, index: int, lane: Lane, ticket: int, method: str, params: bytes, timeout_ms: int
    ) -> NodeAnswer:
        """Call one node, and report the outcome to its circuit breaker."""
        breaker, began = self._selection.all[index].breakers[lane], self._loop.time()
        try:
            answer = await self._clients[index].call(method, params, timeout_ms)
        except BaseException:
            breaker.abandoned(ticket)
            raise
        now = self._loop.time()
        if answer.answered:
            self.hedges.answered(method, int((now - began) * 1_000_000))
        good = (answer.answered and not answer.turned_away) or answer.kind is AnswerKind.OVERSIZED
        breaker.ended(ticket, good, int(now * 1000))
        return answer

    def next_node(self, read: "_PooledRead", worst: State) -> int | None:
        choose = self._selection.choose
        index = choose(read.lane, read.of_history, self._now_ms(), read.tried, read.min_slot, worst)
        if index is not None:
            read.tried.append(index)
        return index

    def is_failing(self, index: int, lane: Lane) -> bool:
        return self._selection.state(index, lane, self._now_ms()) is State.FAILING

    def _now_ms(self) -> int:
        return int(self._loop.time() * 1000)

    def _remaining_ms(self, give_up_at: float) -> int:
        return int((give_up_at - self._loop.time()) * 1000)


class _PooledRead:
    """One read, and the nodes that it was sent to."""

    __slots__ = ("began", "give_up_at", "lane", "method", "min_slot", "of_history", "params", "second_best", "tried")

    def __init__(self, method: str, params: bytes, timeout_ms: int, lane: Lane) -> None:
        self.method, self.params, self.lane = method, params, lane
        self.of_history = is_of_history(method)
        self.min_slot = min_slot_of(params)
        self.began = asyncio.get_running_loop().time()
        self.give_up_at = self.began + timeout_ms / 1000
        self.tried: list[int] = []
        self.second_best: NodeAnswer | None = None  # Answer of a node that is behind or busy.

    def is_answered_by(self, answer: NodeAnswer) -> bool:
        """Return whether no other node needs to be asked."""
        if answer.kind is AnswerKind.RESULT or answer.kind is AnswerKind.OVERSIZED:
            return True
        if answer.kind is not AnswerKind.ERROR and not isinstance(answer, RefusedAnswer):
            return False
        if (
            answer.answered
            and not answer.turned_away
            and not replies.concerns_one_node(answer.error_code, answer.error_message)
        ):
            return True
        self.second_best = self.second_best or answer
        return False


class _Hedge:
    """Checks a call when it is late, and asks a second node too.

    The second answer ends the first wait by cancelling it, as a client that leaves does. So a call that is not late
    costs a timer and no task. The second request is watched in the same way.
    """

    __slots__ = ("_delay", "_index", "_is_over", "_loop", "_pool", "_read", "_task", "_timer", "running", "won")

    def __init__(self, pool: NodePool, read: _PooledRead, index: int) -> None:
        self._pool, self._read, self._index = pool, read, index
        self._task = asyncio.current_task()
        self.won: NodeAnswer | None = None
        self.running: asyncio.Task[NodeAnswer] | None = None
        self._is_over = False
        self._delay = pool.hedges.delay_ms(read.method) / 1000
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(self._delay, self._check)

    def stop(self) -> None:
        """End the second request: the first node has answered, or the caller has left."""
        self._is_over = True
        self._timer.cancel()
        if self.running is not None:
            self.running.cancel()

    def ends_the_wait(self) -> bool:
        """Return whether this hedge alone cancelled the wait, and `won` is the answer. False: the caller left too."""
        alone = False
        if self.won is not None:
            assert self._task is not None
            alone = self._task.uncancel() == 0
        self.stop()
        return alone

    async def result(self, failure: NodeAnswer) -> NodeAnswer:
        """Wait for the second request after the first node failed; the request ends when its caller leaves."""
        self._is_over = True
        self._timer.cancel()
        assert self.running is not None
        answer = await self.running
        return answer if answer.answered else failure

    def _check(self) -> None:
        """Ask another node for the late call, if the first one is failing or the budget has a hedge left."""
        read, hedges = self._read, self._pool.hedges
        waited = self._loop.time() - read.began
        worst = State.BEHIND if waited >= _BEHIND_AFTER_SECONDS else State.WELL
        is_failing = self._pool.is_failing(self._index, read.lane)
        index = self._pool.next_node(read, worst) if is_failing or hedges.affords() else None
        if index is not None:
            if not is_failing:
                hedges.take()
            self.running = self._loop.create_task(self._pool.ask_from(index, read, worst))
            self.running.add_done_callback(self._done)
        else:
            self._check_later()

    def _check_later(self) -> None:
        self._delay *= _DELAY_GROWTH
        if self._loop.time() + self._delay < self._read.give_up_at:
            self._timer = self._loop.call_later(self._delay, self._check)

    def _done(self, running: "asyncio.Task[NodeAnswer]") -> None:
        if self._is_over or running.cancelled() or running.exception() is not None:
            return
        answer = running.result()
        if self._read.is_answered_by(answer):
            assert self._task is not None
            self.won = answer
            self._task.cancel()
        else:
            self.running = None  # A later check may ask a third node.
            self._check_later()
