"""What an operator commands is carried out while all run, and a silent actor holds no slice for long."""

import asyncio
import logging

import pytest

from actors.hosting import ActorUnreachable
from actors.ownership.api import Commanded
from actors.ownership.director import CountFollower, Director
from tests.ownership.actors_of_a_team import TeamActors
from tests.ownership.memory_store import MemoryOwnership
from tests.ownership.test_team import TEAM

FIRST, SECOND, THIRD = TEAM.names(3)


@pytest.fixture
def actors(monkeypatch: pytest.MonkeyPatch) -> TeamActors:
    made = TeamActors(monkeypatch)
    made.place(FIRST)
    return made


def director(actors: TeamActors, name: str) -> Director:
    return Director(TEAM, actors.store, name, actors.place, actors.refer)


async def test_the_first_one_has_as_many_as_are_wanted(actors: TeamActors) -> None:
    first = director(actors, FIRST)
    for count, held in ((3, {FIRST: 3, SECOND: 3, THIRD: 2}), (1, {FIRST: 8}), (2, {FIRST: 4, SECOND: 4})):
        await first.scale(count)
        assert not (await first.spread())["is_even"]
        await first.step(Commanded(count, 1))
        assert await first.spread() == {"wanted": count, "is_even": True, "slices": held}
        assert actors.running == set(held)
        before = list(actors.steps)
        await first.step(Commanded(count, 1))
        assert actors.steps == before, "nothing moves that is where it should be"
    with pytest.raises(AssertionError):
        await first.scale(TEAM.actors_max + 1)


async def test_slices_of_a_silent_one_move_at_the_second_look_and_back_when_it_answers(actors: TeamActors) -> None:
    """It is not ended: Ray starts it again, or it goes on."""
    first, wanted = director(actors, FIRST), Commanded(3, 1)
    await first.step(wanted)
    actors.silent = {THIRD}
    await first.step(wanted)
    assert (await actors.shares())[THIRD] == 2
    await first.step(wanted)
    assert await actors.shares() == {FIRST: 4, SECOND: 4} and THIRD in actors.running
    actors.silent = set()
    await first.step(wanted)
    assert set(await actors.shares()) == {FIRST, SECOND, THIRD}


async def test_one_that_answers_between_two_looks_is_not_silent(actors: TeamActors) -> None:
    first, wanted = director(actors, FIRST), Commanded(2, 1)
    await first.step(wanted)
    for silent in ({SECOND}, set(), {SECOND}, set()):
        actors.silent = silent
        await first.step(wanted)
    assert await actors.shares() == {FIRST: 4, SECOND: 4}


async def test_the_next_one_directs_while_the_first_is_silent(actors: TeamActors) -> None:
    await director(actors, FIRST).step(Commanded(3, 1))
    second, third, wanted = director(actors, SECOND), director(actors, THIRD), Commanded(3, 1)
    actors.silent = {FIRST}
    for _ in range(3):
        await third.step(wanted)
    assert (await actors.shares())[FIRST] == 3, "the second one answers, so the third one does nothing"
    for _ in range(2):
        await second.step(wanted)
    assert await actors.shares() == {SECOND: 4, THIRD: 4}


async def test_nobody_takes_anything_because_rays_head_is_away(actors: TeamActors) -> None:
    """Those whose handles are known are asked without it; of the others nothing is known."""
    first, wanted = director(actors, FIRST), Commanded(3, 1)
    await first.step(wanted)
    before, actors.headless = await actors.store.holders(TEAM.kind), True
    for looking in (first, director(actors, SECOND), director(actors, THIRD)):
        for _ in range(3):
            await looking.step(wanted)
    assert await actors.store.holders(TEAM.kind) == before


async def test_one_that_ray_has_not_got_is_started_again(actors: TeamActors) -> None:
    first, wanted = director(actors, FIRST), Commanded(2, 1)
    await first.step(wanted)
    actors.running = {FIRST}
    for _ in range(3):
        await first.step(wanted)
    assert actors.running == {FIRST, SECOND} and await actors.shares() == {FIRST: 4, SECOND: 4}


async def test_the_loop_goes_on_after_what_does_not_answer_and_after_a_bug(caplog: pytest.LogCaptureFixture) -> None:
    store, ends = MemoryOwnership(), [ActorUnreachable("away"), KeyError("a bug"), None]
    seen: list[Commanded] = []
    done = asyncio.Event()

    async def step(commanded: Commanded) -> None:
        seen.append(commanded)
        end = ends[len(seen) - 1]
        if end is not None:
            raise end
        done.set()

    counts = CountFollower("racers", store, step, look_seconds=0.001)
    loop = asyncio.create_task(counts.run())
    await asyncio.sleep(0.01)
    assert not seen, "nobody has said how many"
    await counts.scale(4)
    async with asyncio.timeout(5):
        await done.wait()
    loop.cancel()
    assert seen[:3] == [Commanded(4, 4)] * 3
    levels = [record.levelno for record in caplog.records]
    assert levels == [logging.WARNING, logging.ERROR], "a bug is logged with its traceback"


async def test_another_count_keeps_the_setting_that_the_first_was_given_under() -> None:
    store = MemoryOwnership()
    await store.set_wanted("racers", 2, 2)

    async def nothing(_: Commanded) -> None: ...

    counts = CountFollower("racers", store, nothing)
    await counts.scale(5)
    assert await store.commanded("racers") == Commanded(5, 2)
    assert await counts.spread({"a": 1, "b": 1}) == {"wanted": 5, "is_even": False, "slices": {"a": 1, "b": 1}}


async def test_a_number_is_not_reached_while_a_step_for_the_one_before_moves_work() -> None:
    """Two commands that contradict each other: the second one found the work spread as it wanted, said so, and then the
    step for the first one, which had waited for new processes, moved the work away and had to be undone."""
    store, go_on = MemoryOwnership(), asyncio.Event()
    started = {2: asyncio.Event(), 4: asyncio.Event()}

    async def step(commanded: Commanded) -> None:
        started[commanded.wanted].set()
        await go_on.wait()

    counts = CountFollower("racers", store, step, look_seconds=0.001)
    await counts.scale(4)
    loop = asyncio.create_task(counts.run())
    async with asyncio.timeout(5):
        await started[4].wait()
        await counts.scale(2)
        assert not (await counts.spread({"a": 1, "b": 1}))["is_even"]
        go_on.set()
        await started[2].wait()
        assert (await counts.spread({"a": 1, "b": 1}))["is_even"]
    loop.cancel()
