"""Racers are placed as many as are wanted, with even shares, and none is ended while it holds a slice."""

from typing import Any

import pytest

from actors import hosting
from actors.config import Config, SendsConfig, StorageConfig
from actors.ownership.api import OwnershipUnavailable
from actors.sends import placing, spreading
from actors.sends.placing import place_racers
from actors.sends.slices import KIND, RACERS_MAX
from tests.ownership.memory_store import MemoryOwnership


class Actors:
    """Racers of a cluster. silent: those that do not answer."""

    def __init__(self) -> None:
        self.store, self.silent = MemoryOwnership(), set[str]()
        self.placed: list[str] = []
        self.kept: set[str] | None = None

    def refer(self, name: str) -> Any:
        return _Racer(self, name)

    async def shares(self) -> dict[str, int]:
        held = [owned.holder for owned in (await self.store.holders(KIND)).values()]
        return {name: held.count(name) for name in sorted(set(held))}


class _Racer:
    def __init__(self, actors: Actors, name: str) -> None:
        self._actors, self._name = actors, name
        self.give, self.take = _Ask(self._give), _Ask(self._take)

    async def _take(self, slices: list[int]) -> None:
        await self._answer()
        await self._actors.store.claim(KIND, slices, self._name)

    async def _give(self, slices: list[int]) -> None:
        del slices
        await self._answer()

    async def _answer(self) -> None:
        if self._name in self._actors.silent:
            raise TimeoutError


class _Ask:
    def __init__(self, remote: Any) -> None:
        self.remote = remote


@pytest.fixture
def actors(monkeypatch: pytest.MonkeyPatch) -> Actors:
    made = Actors()

    class Opened:
        def __init__(self, *_: Any) -> None:
            pass

        async def __aenter__(self) -> MemoryOwnership:
            return made.store

        async def __aexit__(self, *_: Any) -> None:
            pass

    def place(name: str, *_: Any) -> None:
        made.placed.append(name)

    def remove_others(prefix: str, names: set[str]) -> None:
        assert prefix == "send-racer"
        made.kept = names

    monkeypatch.setattr(placing, "opened_ownership", Opened)
    monkeypatch.setattr(placing, "place_racer", place)
    monkeypatch.setattr(hosting, "remove_others", remove_others)
    monkeypatch.setattr(spreading, "_AGAIN_SECONDS", 0.0)
    return made


def settings(racers: int) -> Config:
    return Config(storage=StorageConfig(), sends=SendsConfig(racers=racers))


async def place(actors: Actors, config: Config) -> int:
    opener: Any = None
    return await place_racers(config, opener, opener, actors.refer)


async def test_racers_come_and_go_with_even_shares(actors: Actors) -> None:
    for count, shares in (
        (1, {"send-racer-0": 256}),
        (3, {"send-racer-0": 86, "send-racer-1": 85, "send-racer-2": 85}),
        (2, {"send-racer-0": 128, "send-racer-1": 128}),
    ):
        assert await place(actors, settings(count)) == count
        assert await actors.shares() == shares and actors.kept == set(shares)
    before = await actors.store.holders(KIND)
    await place(actors, settings(2))
    assert await actors.store.holders(KIND) == before  # A second replica of a deployment moves nothing.


async def test_an_operators_number_wins_until_the_setting_changes(actors: Actors) -> None:
    await actors.store.set_wanted(KIND, 3, 1)
    assert await place(actors, settings(1)) == 3
    assert await place(actors, settings(2)) == 2
    await actors.store.set_wanted(KIND, RACERS_MAX + 9, 2)
    assert await place(actors, settings(2)) == RACERS_MAX


async def test_a_racer_that_does_not_answer_keeps_what_it_has_until_the_next_time(actors: Actors) -> None:
    """Nobody is ended: one that is wanted no more may hold what the silent one should take."""
    await place(actors, settings(1))
    actors.silent, actors.kept = {"send-racer-1"}, None
    await place(actors, settings(2))
    assert await actors.shares() == {"send-racer-0": 256} and actors.kept is None
    actors.silent = set()
    await place(actors, settings(2))
    assert await actors.shares() == {"send-racer-0": 128, "send-racer-1": 128}


async def test_without_postgres_the_racers_of_the_settings_are_placed(
    actors: Actors, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A replica must start, as it answers reads; an operator's larger number may hold, so nobody is ended."""

    async def away(*_: Any) -> int:
        raise OwnershipUnavailable("away")

    monkeypatch.setattr(actors.store, "wanted", away)
    assert await place(actors, settings(2)) == 2
    assert sorted(actors.placed) == ["send-racer-0", "send-racer-1"]
    assert actors.kept is None and await actors.shares() == {}
