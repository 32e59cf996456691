"""Actors of a team are placed as many as are wanted, with even shares, and none is ended while it holds a slice."""

import pytest

from actors.config import StorageConfig
from actors.ownership.api import Commanded, OwnershipUnavailable
from actors.ownership.spreading import place_team, spread_slices
from tests.ownership.actors_of_a_team import TeamActors
from tests.ownership.test_team import TEAM

FIRST, SECOND, THIRD = TEAM.names(3)


@pytest.fixture
def actors(monkeypatch: pytest.MonkeyPatch) -> TeamActors:
    return TeamActors(monkeypatch)


async def place(actors: TeamActors, setting: int) -> int:
    return await place_team(StorageConfig(), TEAM, setting, actors.place)


async def test_actors_come_and_go_with_even_shares(actors: TeamActors) -> None:
    for count, held in ((1, {FIRST: 8}), (3, {FIRST: 3, SECOND: 3, THIRD: 2}), (1, {FIRST: 8})):
        assert await place(actors, count) == count
        assert await actors.shares() == held and actors.running == set(held)
    assert actors.steps == [
        ("take", FIRST),
        *[("give", FIRST), ("take", SECOND)],
        *[("give", FIRST), ("take", THIRD)],
        *[("give", SECOND), ("take", FIRST)],
        *[("give", THIRD), ("take", FIRST)],
    ]
    before = await actors.store.holders(TEAM.kind)
    await place(actors, 1)
    assert await actors.store.holders(TEAM.kind) == before, "a second replica of a deployment moves nothing"


async def test_an_operators_number_wins_until_the_setting_changes(actors: TeamActors) -> None:
    """And it is kept with the setting that it was given under."""
    await actors.store.set_wanted(TEAM.kind, 3, 1)
    assert await place(actors, 1) == 3
    assert await actors.store.commanded(TEAM.kind) == Commanded(3, 1)
    assert await place(actors, 2) == 2
    assert await actors.store.commanded(TEAM.kind) == Commanded(2, 2)
    await actors.store.set_wanted(TEAM.kind, TEAM.actors_max + 9, 2)
    assert await place(actors, 2) == TEAM.actors_max


async def test_one_that_does_not_answer_keeps_what_it_has_until_the_next_time(actors: TeamActors) -> None:
    """Nobody is ended: one that is wanted no more may hold what the silent one should take."""
    await place(actors, 1)
    actors.silent, actors.kept = {SECOND}, None
    await place(actors, 2)
    assert await actors.shares() == {FIRST: 8} and actors.kept is None
    actors.silent = set()
    await place(actors, 2)
    assert await actors.shares() == {FIRST: 4, SECOND: 4}


async def test_slices_of_one_that_is_gone_are_taken_all_the_same(actors: TeamActors) -> None:
    await place(actors, 2)
    actors.silent = {SECOND}
    await place(actors, 1)
    assert await actors.shares() == {FIRST: 8} and actors.kept == {FIRST}


async def test_one_that_is_known_to_be_silent_is_not_asked_to_give(actors: TeamActors) -> None:
    """A dispatcher is waited for up to 18 s, and its slices have waited already."""
    await place(actors, 2)
    actors.steps.clear()
    assert await spread_slices(actors.store, TEAM, [FIRST], away={SECOND}) == {FIRST}
    assert actors.steps == [("take", FIRST)]


async def test_without_the_store_those_of_the_settings_are_placed_and_nothing_moves(
    actors: TeamActors, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A replica must start, as it answers reads; an operator's larger number may hold, so nobody is ended."""

    async def away(*_: object) -> int:
        raise OwnershipUnavailable

    monkeypatch.setattr(actors.store, "wanted", away)
    assert await place(actors, 2) == 2
    assert sorted(actors.placed) == [FIRST, SECOND] and actors.steps == [] and actors.kept is None
