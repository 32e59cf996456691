"""Slices of sends are spread evenly over the racers that are wanted; more of it: test_placing.py."""

from actors.sends.slices import KIND, SLICES
from actors.sends.spreading import held_by, is_even, spread_races
from tests.sends.test_placing import Actors, actors, place, settings

__all__ = ["actors"]  # The fixture.


async def test_a_dead_racer_loses_its_slices(actors: Actors) -> None:
    await place(actors, settings(2))
    actors.silent = {"send-racer-1"}
    assert await spread_races(actors.store, ["send-racer-0"], actors.refer) == {"send-racer-0"}
    assert await actors.shares() == {"send-racer-0": SLICES}


async def test_a_spread_is_even_when_all_who_are_wanted_hold_as_many(actors: Actors) -> None:
    await place(actors, settings(3))
    counts = await held_by(actors.store)
    assert counts == {"send-racer-0": 86, "send-racer-1": 85, "send-racer-2": 85}
    assert is_even(counts, list(counts))
    assert not is_even(counts, ["send-racer-0", "send-racer-1"])
    await actors.store.claim(KIND, range(10), "send-racer-2")
    assert not is_even(await held_by(actors.store), list(counts))
