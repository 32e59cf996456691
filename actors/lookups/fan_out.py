"""Many questions to a node for one call: some at a time, all within the call's time.

Implements: decisions 3.5 (item by item, concurrently, never a batch).
A shell. What is asked, and what the answers mean, is elsewhere in this context.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

import orjson

from actors.upstream import replies
from actors.upstream.replies import AnswerKind, Node, NodeAnswer

# What is put together here is read value by value, in the loop that all callers share: 16 MB of token accounts take a
# quarter of a second. An exchange's wallet has more of them than this.
ANSWER_BYTES_MAX = 16 << 20
REQUEST_BYTES_MAX = 64 << 20  # Of all answers to one call, which are in memory together.
CALLS_PER_REQUEST = 8  # A history of 100 is then 13 rounds, and 64 callers at once do not take every connection.

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

_WITHOUT_ANSWER = {
    AnswerKind.GARBAGE: "the node's answer could not be understood",
    AnswerKind.UNREACHABLE: "the node could not be reached",
    AnswerKind.TIMED_OUT: "the node did not answer in time",
    AnswerKind.OVERSIZED: "the node's answer is larger than this service takes",
}


class Asker:
    """One per process. at_once_max: questions under way for all requests together, so that plain calls have room."""

    def __init__(self, node: Node, at_once_max: int) -> None:
        self._node = node
        self._places = asyncio.Semaphore(at_once_max)

    def questions(self, timeout_ms: int) -> "Questions":
        """All questions of one call, which has so long from now."""
        return Questions(self._node, self._places, asyncio.get_running_loop().time() + timeout_ms / 1000)


class Questions:
    def __init__(self, node: Node, places: asyncio.Semaphore, give_up_at: float) -> None:
        self._node, self._places, self._give_up_at = node, places, give_up_at
        self._asked: set[str] = set()
        self._bytes_left = REQUEST_BYTES_MAX

    @property
    def nodes(self) -> str:
        """The names of the nodes that answered so far."""
        return ", ".join(sorted(self._asked))

    async def ask(self, method: str, *params: Any) -> NodeAnswer:
        """Raises nothing. TIMED_OUT: the time was up before there was room; OVERSIZED: it is too much to read."""
        try:
            async with asyncio.timeout_at(self._give_up_at):
                await self._places.acquire()
        except TimeoutError:
            return replies.TIMED_OUT
        try:
            left_ms = int((self._give_up_at - asyncio.get_running_loop().time()) * 1000)
            if left_ms <= 0:
                return replies.TIMED_OUT
            answer = await self._node.call(method, orjson.dumps(params), left_ms)
        finally:
            self._places.release()
        if answer.node:
            self._asked.add(answer.node)
        if len(answer.body) > min(ANSWER_BYTES_MAX, self._bytes_left):
            return replies.OVERSIZED
        self._bytes_left -= len(answer.body)
        return answer

    async def each(self, items: Iterable[_Item], work: Callable[[_Item], Awaitable[_Result]]) -> list[_Result]:
        """What work gives for each item, in order; CALLS_PER_REQUEST of them at a time."""
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
    """Why this is no result, for the client."""
    assert answer.kind is not AnswerKind.RESULT
    if answer.kind is AnswerKind.ERROR:
        return f"the node says: {answer.error_message} ({answer.error_code})"
    return _WITHOUT_ANSWER[answer.kind]
