"""Turns of work on the event loop: short, one after the other, fair between accounts, and never all of the time."""

import asyncio
import itertools

import pytest

from actors.streams.yellowstone.work import BURST_SECONDS, SHARE, TURN_SECONDS, GeyserWork, Turn

ONE, TWO = b"one", b"two"


class Measured:
    """A time that moves as the test says; and how long the loop waits for it is not waited."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> float:
        return self.seconds


async def pieces(turn: Turn, time: Measured, name: str, count: int, told: list[str], seconds: float) -> None:
    for _ in range(count):
        await turn.step()
        told.append(name)
        time.seconds += seconds
    turn.end()


@pytest.fixture
def time() -> Measured:
    return Measured()


async def until_done(time: Measured, *tasks: "asyncio.Task[None]") -> None:
    """Let time pass while everybody waits."""
    while not all(task.done() for task in tasks):
        await asyncio.sleep(0.001)
        time.seconds += 0.001


async def test_accounts_take_turns_however_many_streams_each_has(time: Measured) -> None:
    work, told = GeyserWork(time.now), list[str]()
    many = [
        asyncio.create_task(pieces(Turn(work, ONE), time, f"one{number}", 3, told, TURN_SECONDS))
        for number in range(20)
    ]
    await asyncio.sleep(0)
    other = asyncio.create_task(pieces(Turn(work, TWO), time, "two", 3, told, TURN_SECONDS))
    await until_done(time, *many, other)
    places = [place for place, name in enumerate(told) if name == "two"]
    assert places[-1] <= 7, told[:12]
    assert len(told) == 63


async def test_a_turn_ends_by_its_time_and_others_of_the_loop_run_between_turns(time: Measured) -> None:
    """Not by what matched: a piece of work that finds nothing counts as well."""
    work, told = GeyserWork(time.now), list[str]()
    turn = Turn(work, ONE)
    began: list[float] = []

    async def beside() -> None:
        while True:
            began.append(time.seconds)
            await asyncio.sleep(0)

    watching = asyncio.create_task(beside())
    await asyncio.sleep(0)
    await pieces(turn, time, "one", 40, told, TURN_SECONDS / 4)
    watching.cancel()
    held = max(later - earlier for earlier, later in itertools.pairwise(began))
    assert held <= TURN_SECONDS + TURN_SECONDS / 4


async def test_work_takes_its_share_of_the_time_and_no_more(time: Measured) -> None:
    work, told = GeyserWork(time.now), list[str]()
    task = asyncio.create_task(pieces(Turn(work, ONE), time, "one", 100, told, TURN_SECONDS))
    await until_done(time, task)
    worked = 100 * TURN_SECONDS
    assert time.seconds >= worked / SHARE - BURST_SECONDS / SHARE


async def test_one_that_leaves_while_it_waits_or_as_its_turn_comes_holds_up_nobody(time: Measured) -> None:
    work, told = GeyserWork(time.now), list[str]()
    first = Turn(work, ONE)
    await first.begin()
    waiting = [asyncio.create_task(Turn(work, ONE).begin()) for _ in range(2)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    first.end()
    await asyncio.sleep(0)  # The other one is told, and has not run yet.
    waiting[1].cancel()
    last = asyncio.create_task(pieces(Turn(work, TWO), time, "two", 1, told, 0.0))
    await until_done(time, last)
    assert told == ["two"]


async def test_a_turn_that_has_ended_ends_once(time: Measured) -> None:
    work = GeyserWork(time.now)
    turn, other = Turn(work, ONE), Turn(work, TWO)
    await turn.begin()
    turn.end()
    await other.begin()
    turn.end()
    third = asyncio.create_task(Turn(work, ONE).begin())
    await asyncio.sleep(0.01)
    assert not third.done()
    other.end()
    await third
