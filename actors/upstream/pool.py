"""Sends each call to the best of several nodes, and to another one where that is safe.

Implements: node pool (weighted choice, hedged reads, retry of reads only within the class's timeout, never of sends).
The shell: node_selection.py chooses the node, hedging.py limits second requests, client.py calls one node.

A read that fails is sent to the next node. A read that is late is also sent to a second node; the first answer is used,
and the connection of the other request is closed. A send goes to one node, once: another node is tried only when no
byte of it has been sent. A JSON-RPC error is an answer too; only "this node is behind" makes a read try another node
first.

With a single node, calls go directly to its client. No call has a task of its own until it is late.
"""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

from actors.upstream import reads, replies
from actors.upstream.client import NodeClient
from actors.upstream.hedging import Hedges
from actors.upstream.method_lanes import Lane, is_of_history, lane_of
from actors.upstream.node_selection import Members, Need, State
from actors.upstream.replies import AnswerKind, NodeAnswer

_BEHIND_AFTER_SECONDS = (
    0.5  # A slow read is asked of a node that lags only when nobody better has answered for so long.
)
_LATER = 2  # Each look at a late call comes twice as late as the one before.


class NodePool:
    """A pool for one event loop. members: the state of the nodes; clients: one for each node, in the same order."""

    def __init__(self, members: Members, clients: Sequence[NodeClient], hedges: Hedges) -> None:
        assert len(members.all) == len(clients)
        self._members, self._clients, self.hedges = members, clients, hedges
        self._loop = asyncio.get_running_loop()

    def call(self, method: str, params: bytes, timeout_ms: int) -> Coroutine[Any, Any, NodeAnswer]:
        """As NodeClient.call."""
        if len(self._clients) == 1:
            return self._clients[0].call(method, params, timeout_ms)
        lane = lane_of(method)
        if lane is Lane.SEND:
            return self._send(method, params, timeout_ms)
        return self._read(_Question(self, method, params, timeout_ms, lane))

    async def close(self) -> None:
        for client in self._clients:
            await client.close()

    async def _send(self, method: str, params: bytes, timeout_ms: int) -> NodeAnswer:
        need = reads.need_of(params)
        give_up_at = self._loop.time() + timeout_ms / 1000
        tried: list[int] = []
        answer = replies.UNREACHABLE
        while (remaining_ms := self._remaining_ms(give_up_at)) > 0:
            index = self._members.choose(Lane.SEND, False, self._now_ms(), tried, need)
            if index is None:
                break
            tried.append(index)
            ticket = self._members.begin(index, Lane.SEND)
            answer = await self._ask(index, Lane.SEND, ticket, method, params, remaining_ms)
            if answer is not replies.NOT_SENT:
                break
        return answer

    async def _read(self, question: "_Question") -> NodeAnswer:
        self.hedges.read_began()
        answer = await self.ask_from(question.next_node(State.FAILING), question, State.FAILING)
        return answer if question.is_settled_by(answer) else question.second_best or answer

    async def ask_from(self, index: int | None, question: "_Question", worst: State) -> NodeAnswer:
        """Ask this node, then each next one that is in no worse state, until an answer settles the read."""
        answer = replies.UNREACHABLE
        while index is not None:
            answer = await self._ask_watched(index, question)
            if question.is_settled_by(answer) or self._remaining_ms(question.give_up_at) <= 0:
                break
            index = question.next_node(worst)
        return answer

    async def _ask_watched(self, index: int, question: "_Question") -> NodeAnswer:
        """Ask one node, and a second one when it is late. The first answer that settles the read is used."""
        ticket = self._members.begin(index, question.lane)
        rescue = _Rescue(self, question, index)
        try:
            remaining_ms = self._remaining_ms(question.give_up_at)
            answer = await self._ask(index, question.lane, ticket, question.method, question.params, remaining_ms)
        except asyncio.CancelledError:
            if not rescue.ends_the_wait():
                raise
            # What has not answered while another did counts as failed: that is how a hanging node is noticed.
            self._members.ended(index, question.lane, ticket, False, self._now_ms())
            assert rescue.won is not None
            return rescue.won
        except BaseException:
            rescue.stop()
            raise
        if rescue.running is not None and not question.is_settled_by(answer):
            return await rescue.result(answer)
        rescue.stop()
        return answer

    async def _ask(
        self, index: int, lane: Lane, ticket: int, method: str, params: bytes, timeout_ms: int
    ) -> NodeAnswer:
        """Call one node, and report the outcome to its circuit breaker."""
        began = self._loop.time()
        try:
            answer = await self._clients[index].call(method, params, timeout_ms)
        except BaseException:
            self._members.abandoned(index, lane, ticket)
            raise
        now = self._loop.time()
        if answer.answered:
            self.hedges.answered(method, int((now - began) * 1_000_000))
        good = (answer.answered and not answer.turned_away) or answer.kind is AnswerKind.OVERSIZED
        self._members.ended(index, lane, ticket, good, int(now * 1000))
        return answer

    def choose(self, question: "_Question", worst: State) -> int | None:
        return self._members.choose(
            question.lane, question.of_history, self._now_ms(), question.tried, question.need, worst
        )

    def is_failing(self, index: int, lane: Lane) -> bool:
        return self._members.state(index, lane, self._now_ms()) is State.FAILING

    def _now_ms(self) -> int:
        return int(self._loop.time() * 1000)

    def _remaining_ms(self, give_up_at: float) -> int:
        return int((give_up_at - self._loop.time()) * 1000)


class _Question:
    """One read, and the nodes that it was sent to."""

    __slots__ = (
        *("lane", "method", "params", "of_history", "need"),
        *("began", "give_up_at", "tried", "second_best", "_pool"),
    )

    def __init__(self, pool: NodePool, method: str, params: bytes, timeout_ms: int, lane: Lane) -> None:
        self._pool = pool
        self.method, self.params, self.lane = method, params, lane
        self.of_history = is_of_history(method)
        self.need: Need | None = reads.need_of(params)
        self.began = asyncio.get_running_loop().time()
        self.give_up_at = self.began + timeout_ms / 1000
        self.tried: list[int] = []
        self.second_best: NodeAnswer | None = None  # A true answer, of a node that is behind or busy.

    def next_node(self, worst: State) -> int | None:
        index = self._pool.choose(self, worst)
        if index is not None:
            self.tried.append(index)
        return index

    def is_settled_by(self, answer: NodeAnswer) -> bool:
        """Return whether no other node needs to be asked."""
        if answer.kind is AnswerKind.RESULT or answer.kind is AnswerKind.OVERSIZED:
            return True
        if answer.kind is not AnswerKind.ERROR:
            return False
        if not answer.turned_away and not replies.is_nodes_own_trouble(answer.error_code, answer.error_message):
            return True
        self.second_best = self.second_best or answer
        return False


class _Rescue:
    """Looks at a call when it is late, and asks another node too.

    What it finds ends the caller's own waiting by cancelling it, as a client's departure does: so a call that is not
    late costs a timer and no task. The second request is watched in the same way.
    """

    __slots__ = ("_delay", "_index", "_is_over", "_loop", "_pool", "_question", "_task", "_timer", "running", "won")

    def __init__(self, pool: NodePool, question: _Question, index: int) -> None:
        self._pool, self._question, self._index = pool, question, index
        self._task = asyncio.current_task()
        self.won: NodeAnswer | None = None
        self.running: asyncio.Task[NodeAnswer] | None = None
        self._is_over = False
        self._delay = pool.hedges.delay_ms(question.method) / 1000
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(self._delay, self._look)

    def stop(self) -> None:
        """End the second request: the first node has answered, or the caller has left."""
        self._is_over = True
        self._timer.cancel()
        if self.running is not None:
            self.running.cancel()

    def ends_the_wait(self) -> bool:
        """Whether the cancellation just caught was this one's alone: then it is as if never made, and `won` is there.
        Otherwise the caller left, perhaps in the same moment."""
        alone = False
        if self.won is not None:
            assert self._task is not None
            alone = self._task.uncancel() == 0
        self.stop()
        return alone

    async def result(self, failure: NodeAnswer) -> NodeAnswer:
        """The first node has failed while the second is at work: now that is waited for, and leaves with its caller."""
        self._is_over = True
        self._timer.cancel()
        assert self.running is not None
        answer = await self.running
        return answer if answer.answered else failure

    def _look(self) -> None:
        """The call is late. Another node is asked if this one is known to fail, or if the budget has a hedge left."""
        question, hedges = self._question, self._pool.hedges
        waited = self._loop.time() - question.began
        worst = State.BEHIND if waited >= _BEHIND_AFTER_SECONDS else State.WELL
        is_failing = self._pool.is_failing(self._index, question.lane)
        index = question.next_node(worst) if is_failing or hedges.affords() else None
        if index is not None:
            if not is_failing:
                hedges.take()
            self.running = self._loop.create_task(self._pool.ask_from(index, question, worst))
            self.running.add_done_callback(self._done)
        else:
            self._look_later()

    def _look_later(self) -> None:
        self._delay *= _LATER
        if self._loop.time() + self._delay < self._question.give_up_at:
            self._timer = self._loop.call_later(self._delay, self._look)

    def _done(self, running: "asyncio.Task[NodeAnswer]") -> None:
        if self._is_over or running.cancelled() or running.exception() is not None:
            return
        answer = running.result()
        if self._question.is_settled_by(answer):
            assert self._task is not None
            self.won = answer
            self._task.cancel()
        else:
            self.running = None  # It did no better; another may, in a while.
            self._look_later()
