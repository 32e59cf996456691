"""How much nodes work for one call: what counts, and that all tasks of the call count together."""

import asyncio

import pytest

from actors.upstream import replies
from actors.upstream.node_work import NodeWork, counting, current_work
from actors.upstream.replies import AnswerKind, NodeAnswer


def test_a_large_answer_is_more_work_and_the_cache_is_none() -> None:
    work = NodeWork()
    for answer, calls in (
        (NodeAnswer(AnswerKind.RESULT, b"x" * (3 << 20)), 4),
        (replies.OVERSIZED, 17),
        (NodeAnswer(AnswerKind.ERROR, b"{}"), 1),
        (replies.TIMED_OUT, 1),
        (NodeAnswer(AnswerKind.RESULT, b"{}", cache=replies.CACHE_HIT), 0),
        (replies.UNREACHABLE, 0),
    ):
        before = work.calls
        work.began()
        work.ended(answer)
        assert work.calls - before == calls, answer.kind


def test_counting_the_size_of_a_large_answer_joins_no_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its copy held the event loop for 5 ms, at each answer of a look-up."""

    def joined(_: NodeAnswer) -> bytes:
        raise AssertionError("the parts were joined")

    monkeypatch.setattr(NodeAnswer, "body", property(joined))
    work = NodeWork()
    work.began()
    work.ended(NodeAnswer(AnswerKind.RESULT, b"x" * (1 << 20), further=(b"y" * (1 << 20), b"z")))
    assert work.calls == 3


async def test_the_tasks_of_a_call_count_together() -> None:
    """And what they ask counts for nobody once the call has ended."""
    work = NodeWork()

    async def part() -> None:
        found = current_work()
        assert found is work
        found.began()

    async def call() -> None:
        async with asyncio.TaskGroup() as parts:
            for _ in range(20):
                parts.create_task(part())

    await counting(work, call)
    assert work.calls == 20 and current_work() is None
