"""The same bytes twice are one send, and what was no send may be tried again."""

import asyncio

from actors.sends.once import WINDOW_SECONDS, SentOnce
from actors.upstream import replies
from actors.upstream.replies import NodeAnswer

RESULT = replies.made(b'"signature"')
ERROR = replies.made_error(-32002, "Transaction simulation failed", b"{}")


class Node:
    def __init__(self) -> None:
        self.answer, self.calls, self.gate = RESULT, 0, asyncio.Event()
        self.gate.set()

    async def call(self) -> NodeAnswer:
        self.calls += 1
        await self.gate.wait()
        return self.answer


async def test_calls_at_once_and_later_in_the_window_share_one_send() -> None:
    """Decisions: one broadcast within the window, and each call gets the signature."""
    once, node = SentOnce(), Node()
    node.gate.clear()
    tasks = [asyncio.create_task(once.send(b"s", node.call, 10.0)) for _ in range(5)]
    await asyncio.sleep(0)
    node.gate.set()
    assert await asyncio.gather(*tasks) == [RESULT] * 5
    assert await once.send(b"s", node.call, 10.0 + WINDOW_SECONDS - 0.1) == RESULT
    assert node.calls == 1
    await once.send(b"other", node.call, 10.0)
    await once.send(b"s", node.call, 10.0 + WINDOW_SECONDS)
    assert node.calls == 3


async def test_what_the_node_refused_or_did_not_answer_is_tried_again() -> None:
    once, node = SentOnce(), Node()
    for node.answer in (ERROR, replies.TIMED_OUT, RESULT, RESULT):
        assert await once.send(b"s", node.call, 10.0) == node.answer
        await asyncio.sleep(0)
    assert node.calls == 3


async def test_a_caller_that_leaves_ends_the_send_of_nobody_else() -> None:
    once, node = SentOnce(), Node()
    node.gate.clear()
    first, second = (asyncio.create_task(once.send(b"s", node.call, 10.0)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    node.gate.set()
    assert await second == RESULT and node.calls == 1


async def test_memory_is_bounded_by_the_window() -> None:
    once, node = SentOnce(), Node()
    for number in range(50):
        await once.send(bytes([number]), node.call, 10.0)
    await once.send(b"late", node.call, 10.0 + WINDOW_SECONDS)
    assert len(once._sends) == 1
