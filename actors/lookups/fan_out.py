"""Many calls to a node for one call of a client: a few at a time, all within its time.

Implements: decisions, "Batches towards the node" (item by item, concurrently, never a batch).
A shell. Other modules of this context choose the calls and read the answers.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

import orjson

from actors.lookups.token_accounts import Slices
from actors.upstream import replies
from actors.upstream.held_places import HeldPlace, holding
from actors.upstream.node_work import NodeWork, current_work
from actors.upstream.replies import AnswerKind, Node, NodeAnswer
from actors.upstream.whole_bodies import in_one_part

# Answers are parsed value by value on the event loop that all callers share: 16 MB of token accounts take a quarter of
# a second. The wallet of an exchange can have more than that.
ANSWER_BYTES_MAX = 16 << 20
REQUEST_BYTES_MAX = 64 << 20  # All answers to one call of a client; they are in memory at the same time.
ACCOUNTS_PER_CALL = 100  # getMultipleAccounts takes no more.
CALLS_PER_REQUEST = 8  # A history of 100 takes 13 rounds, and 64 callers do not take every connection.

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

_WITHOUT_ANSWER = {
    AnswerKind.GARBAGE: "the node's answer could not be understood",
    AnswerKind.UNREACHABLE: "the node could not be reached",
    AnswerKind.TIMED_OUT: "the node did not answer in time",
    AnswerKind.OVERSIZED: "the node's answer is larger than this service takes",
}


class Asker:
    """One per process. at_once_max: calls under way for all clients together; the rest are left to plain calls."""

    def __init__(self, node: Node, at_once_max: int) -> None:
        self._node = node
        self._places = asyncio.Semaphore(at_once_max)
        self._slices = Slices()

    def questions(self, timeout_ms: int) -> "Questions":
        """Return the calls to the node for one call of a client. They must end within timeout_ms from now."""
        give_up_at = asyncio.get_running_loop().time() + timeout_ms / 1000
        return Questions(self._node, self._places, give_up_at, self._slices)


class Questions:
    """The calls to the node that answer one call of a client."""

    def __init__(self, node: Node, places: asyncio.Semaphore, give_up_at: float, slices: Slices) -> None:
        self._node, self._places, self._give_up_at = node, places, give_up_at
        self.slices, self.turn = slices, slices.turn
        self._work = current_work() or NodeWork()
        self._asked: set[str] = set()
        self._bytes_left = REQUEST_BYTES_MAX

    @property
    def nodes(self) -> str:
        """Return the names of the nodes that have answered so far, for the X-Node header."""
        return ", ".join(sorted(self._asked))

    async def ask(self, method: str, *params: Any) -> NodeAnswer:
        """Call the node; raises nothing. TIMED_OUT: no place was free in time. OVERSIZED: the answer is too large."""
        place = HeldPlace(self._places, self._give_up_at)
        if not await place.take():
            return replies.TIMED_OUT
        left_ms = int((self._give_up_at - asyncio.get_running_loop().time()) * 1000)
        if left_ms <= 0:
            place.give_back()
            return replies.TIMED_OUT
        self._work.began()
        answer = await holding(place, self._node.call, method, orjson.dumps(params), left_ms)
        self._work.ended(answer)
        if answer.node:
            self._asked.add(answer.node)
        if answer.size > min(ANSWER_BYTES_MAX, self._bytes_left):
            return replies.OVERSIZED
        self._bytes_left -= answer.size
        return await in_one_part(answer)  # Callers read these answers whole.

    async def each(self, items: Iterable[_Item], work: Callable[[_Item], Awaitable[_Result]]) -> list[_Result]:
        """Return the result of `work` for each item, in the order of the items; CALLS_PER_REQUEST run at a time."""
        numbered = list(enumerate(items))
        waiting = iter(numbered)
        results: dict[int, _Result] = {}

        async def lane() -> None:
            for index, item in waiting:
                results[index] = await work(item)

        async with asyncio.TaskGroup() as lanes:
            for _ in range(min(CALLS_PER_REQUEST, len(numbered))):
                lanes.create_task(lane())
        return [results[index] for index in sorted(results)]


def fault_text(answer: NodeAnswer) -> str:
    """Return the reason why there is no result, for the client."""
    assert answer.kind is not AnswerKind.RESULT
    if answer.kind is AnswerKind.ERROR:
        return f"the node says: {answer.error_message} ({answer.error_code})"
    return _WITHOUT_ANSWER[answer.kind]
