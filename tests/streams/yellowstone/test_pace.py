"""Live updates are spread over the passes of the loop."""

import asyncio

import pytest

from actors.streams.yellowstone.pace import UNITS_A_PASS, GeyserPace

pytestmark = pytest.mark.threat(62)


async def test_a_pass_has_no_more_work_than_it_may_and_everybody_comes_in_order() -> None:
    """Design, "Work on the loop": 200 writes that are due at once come some at a time."""
    pace, done, passes = GeyserPace(), [], []
    units = UNITS_A_PASS // 10

    async def work(number: int) -> None:
        await pace.step(units)
        done.append(number)

    tasks = [asyncio.create_task(work(number)) for number in range(200)]
    while len(done) < 200:
        before = len(done)
        await asyncio.sleep(0)
        passes.append(len(done) - before)
    await asyncio.gather(*tasks)
    assert done == list(range(200))
    assert max(passes) == 10


async def test_work_that_is_longer_than_a_pass_is_done_alone() -> None:
    """A block of 20 MB must get through, and not with others."""
    pace, done = GeyserPace(), []

    async def work(number: int) -> None:
        await pace.step(10 * UNITS_A_PASS)
        done.append(number)

    tasks = [asyncio.create_task(work(number)) for number in range(5)]
    for _ in range(20):
        before = len(done)
        await asyncio.sleep(0)
        assert len(done) - before <= 1
    await asyncio.gather(*tasks)
    assert done == [0, 1, 2, 3, 4]


async def test_who_has_gone_holds_up_nobody() -> None:
    pace = GeyserPace()
    assert pace.has_room(UNITS_A_PASS)
    gone, stays = asyncio.create_task(pace.step(UNITS_A_PASS)), asyncio.create_task(pace.step(1))
    await asyncio.sleep(0)
    gone.cancel()
    await asyncio.wait_for(stays, 10)
