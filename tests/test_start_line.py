"""Guards that few pieces of work begin in one round of the loop, and that accounts and addresses take turns."""

import asyncio

import pytest

from actors.start_line import StartLine

HERE, THERE = "192.0.2.1", "192.0.2.2"


async def rounds_until(tasks: list["asyncio.Future[bool]"]) -> list[int]:
    """Return how many of the tasks had ended after each round of the loop."""
    ended = []
    while not all(task.done() for task in tasks):
        await asyncio.sleep(0)
        ended.append(sum(task.done() for task in tasks))
    return ended


@pytest.mark.threat(63)
@pytest.mark.threat(59)
async def test_few_begin_in_one_round_of_the_loop():
    """Threats 59 and 63: a hundred that arrive in the same moment begin in many rounds."""
    line = StartLine(2)
    tasks = [asyncio.ensure_future(line.enter(HERE)) for _ in range(100)]
    ended = await rounds_until(tasks)
    assert max(after - before for before, after in zip([0, *ended], ended, strict=False)) <= 2
    assert all(task.result() for task in tasks)


async def test_one_alone_begins_at_once():
    """Rule: without a flood nobody waits, also in the rounds after one."""
    line = StartLine(1)
    for _ in range(3):
        with pytest.raises(StopIteration) as stopped:
            line.enter(HERE).send(None)
        assert stopped.value.value is True
        for _ in range(2):
            await asyncio.sleep(0)


async def test_a_newcomer_waits_for_one_turn_of_each_other_and_not_for_all_their_work():
    line, begun = StartLine(1), []

    async def work(name: str) -> None:
        await line.enter(name)
        begun.append(name)

    tasks = [asyncio.ensure_future(work(HERE)) for _ in range(50)]
    await asyncio.sleep(0)
    tasks.append(asyncio.ensure_future(work(THERE)))
    await asyncio.gather(*tasks)
    assert begun.index(THERE) <= 4


async def test_what_waits_is_bounded_and_those_who_left_take_no_turn():
    line = StartLine(1, waiting_max=2)
    first, *waiting = [asyncio.ensure_future(line.enter(HERE)) for _ in range(3)]
    await asyncio.sleep(0)
    assert first.result() and await line.enter(THERE) is False
    waiting[0].cancel()
    assert await waiting[1] is True
    assert await line.enter(THERE) is True
