"""Groups: what waits goes together, nobody joins a group that has begun, and one bad item refuses no other."""

import asyncio
from collections.abc import Sequence

import pytest

from actors.gathered import WOKEN_AT_ONCE, Gathered


class Bad(Exception):
    pass


class Desk:
    """Doubles numbers, once `go` lets it. groups: what it was given."""

    def __init__(self) -> None:
        self.groups: list[list[int]] = []
        self.go = asyncio.Event()
        self.go.set()

    async def work(self, items: Sequence[int]) -> Sequence[int]:
        self.groups.append(list(items))
        await self.go.wait()
        if 13 in items:
            raise Bad
        return [2 * item for item in items]


async def test_callers_of_one_moment_share_a_group_and_later_ones_the_next() -> None:
    desk = Desk()
    desk.go.clear()
    gathered = Gathered(desk.work, 3)
    first = [asyncio.create_task(gathered.ask(number)) for number in (1, 2)]
    await asyncio.sleep(0.001)
    later = [asyncio.create_task(gathered.ask(number)) for number in (3, 4, 5, 6)]
    await asyncio.sleep(0.001)
    assert desk.groups == [[1, 2]]
    desk.go.set()
    assert await asyncio.gather(*first, *later) == [2, 4, 6, 8, 10, 12]
    assert desk.groups == [[1, 2], [3, 4, 5], [6]]
    assert await gathered.ask(7) == 14


async def test_a_caller_that_leaves_is_left_out_and_changes_nothing_for_the_others() -> None:
    desk = Desk()
    desk.go.clear()
    gathered = Gathered(desk.work, 8)
    tasks = [asyncio.create_task(gathered.ask(number)) for number in (1, 2)]
    await asyncio.sleep(0.001)
    waiting = [asyncio.create_task(gathered.ask(number)) for number in (3, 4)]
    await asyncio.sleep(0.001)
    tasks[0].cancel(), waiting[0].cancel()
    await asyncio.sleep(0.001)
    desk.go.set()
    assert (await tasks[1], await waiting[1]) == (4, 8) and desk.groups == [[1, 2], [4]]


@pytest.mark.parametrize("alone", [(), (Bad,)])
async def test_the_cause_of_a_failure_is_found_where_that_is_wanted(alone: tuple[type[Exception], ...]) -> None:
    gathered = Gathered(Desk().work, 8, alone)
    told = await asyncio.gather(*(gathered.ask(number) for number in (1, 13, 2)), return_exceptions=True)
    assert [type(one) for one in told] == ([int, Bad, int] if alone else [Bad, Bad, Bad])
    assert await gathered.ask(5) == 10


async def test_few_callers_go_on_in_one_turn_of_the_loop() -> None:
    """Else the work that each does next would hold up everything else until the last has done it."""
    loop, turns, woken = asyncio.get_running_loop(), 0, dict[int, int]()

    def turn() -> None:
        nonlocal turns
        turns += 1
        if sum(woken.values()) < 100:
            loop.call_soon(turn)

    async def ask(number: int) -> None:
        await gathered.ask(number)
        woken[turns] = woken.get(turns, 0) + 1

    gathered = Gathered(Desk().work, 256)
    loop.call_soon(turn)
    await asyncio.gather(*map(ask, range(100, 200)))
    assert max(woken.values()) <= WOKEN_AT_ONCE and sum(woken.values()) == 100
