"""A place that is given back while its task waits: never twice, and never without being held."""

import asyncio

import pytest

from actors.upstream.held_places import HeldPlace, current_place, holding


async def test_a_place_is_given_back_once_however_often_and_however_the_work_ends():
    """Else one call more would be under way for ever after."""
    loop, places = asyncio.get_running_loop(), asyncio.Semaphore(1)

    async def work(error: Exception | None) -> None:
        place = current_place()
        assert place is not None and places.locked()
        place.give_back()
        place.give_back()
        assert not places.locked() and await place.take()
        if error is not None:
            raise error

    for error in (None, ValueError()):
        place = HeldPlace(places, loop.time() + 60)
        assert await place.take()
        if error is None:
            await holding(place, work, error)
        else:
            with pytest.raises(ValueError):
                await holding(place, work, error)
        assert current_place() is None
    first, second = (HeldPlace(places, loop.time()) for _ in range(2))
    assert await first.take() and not await second.take()
    second.give_back()
    assert places.locked(), "it was not held"
