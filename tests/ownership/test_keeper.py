"""An actor with its slices: it claims at the start and when asked, and never by itself."""

import asyncio
from collections.abc import Sequence

import pytest

from actors.clock import ManualClock
from actors.ownership.api import Owned, OwnershipUnavailable
from actors.ownership.held import GIVEN_SECONDS_MAX, HeldSlices
from actors.ownership.keeper import SliceKeeper
from tests.ownership.memory_store import MemoryOwnership

KIND = "racers"


class Actor:
    def __init__(self, name: str, store: MemoryOwnership, clock: ManualClock) -> None:
        self.held, self.finished, self.begun = HeldSlices(), list[list[int]](), list[list[int]]()
        self.keeper = SliceKeeper(KIND, name, store, self.held, clock, self._finish, self._begin)

    async def _finish(self, slices: Sequence[int]) -> None:
        self.finished.append(list(slices))

    def _begin(self, slices: Sequence[int]) -> None:
        self.begun.append(list(slices))


@pytest.fixture
def store() -> MemoryOwnership:
    return MemoryOwnership()


async def test_a_successor_takes_what_is_stored_under_its_name(store: MemoryOwnership) -> None:
    """By a new epoch, so that a process of before that still runs is refused. An actor that never held any claims
    none."""
    before, after, other = (Actor(name, store, ManualClock()) for name in ("one", "one", "two"))
    await before.keeper.take([1, 2])
    await other.keeper.start()
    await after.keeper.start()
    assert other.held.serving() == {} and other.begun == []
    assert set(after.held.serving()) == {1, 2} and after.begun == [[1, 2]]
    with pytest.raises(Exception, match="slice 1"):
        store.check(KIND, 1, before.held.serving()[1])
    await before.keeper.look()
    assert before.held.serving() == {} and before.finished == [[1, 2]]
    assert (await store.holders(KIND))[1] == Owned("one", after.held.serving()[1])


async def test_taking_again_changes_nothing(store: MemoryOwnership) -> None:
    actor = Actor("one", store, ManualClock())
    await actor.keeper.take([1, 2])
    before = await store.holders(KIND)
    await actor.keeper.take([1, 2])
    assert await store.holders(KIND) == before and actor.begun == [[1, 2]]
    await actor.keeper.take([2, 3])
    assert actor.begun == [[1, 2], [3]]


async def test_what_was_given_is_finished_and_the_next_holder_begins(store: MemoryOwnership) -> None:
    clock = ManualClock()
    one, two = Actor("one", store, clock), Actor("two", store, clock)
    await one.keeper.take([1, 2, 3])
    await one.keeper.give([2, 3, 9])
    await two.keeper.take([2, 3])
    assert one.finished == [[2, 3]] and set(one.held.serving()) == {1} and two.begun == [[2, 3]]
    await one.keeper.look()
    assert set(one.held.serving()) == {1} and one.held.epoch(2) is None


async def test_what_nobody_took_is_served_again(store: MemoryOwnership) -> None:
    clock = ManualClock()
    actor = Actor("one", store, clock)
    await actor.keeper.take([1, 2])
    await actor.keeper.give([2])
    clock.advance(GIVEN_SECONDS_MAX)
    await actor.keeper.look()
    assert set(actor.held.serving()) == {1, 2} and actor.begun == [[1, 2], [2]]


async def test_a_slice_that_was_stolen_and_is_taken_back_is_claimed_anew(store: MemoryOwnership) -> None:
    """Its own view may be old: what is stored decides."""
    one, two = Actor("one", store, ManualClock()), Actor("two", store, ManualClock())
    await one.keeper.take([1])
    await two.keeper.take([1])
    assert one.held.serves(1)
    await one.keeper.take([1])
    store.check(KIND, 1, one.held.serving()[1])


async def test_a_store_that_is_away_ends_no_watch(store: MemoryOwnership, caplog: pytest.LogCaptureFixture) -> None:
    actor = Actor("one", store, ManualClock())
    await actor.keeper.take([1])
    beats = 0

    async def away(_: str) -> dict[int, Owned]:
        raise OwnershipUnavailable("away")

    async def sleep(_: float) -> None:
        nonlocal beats
        beats += 1
        if beats == 3:
            raise asyncio.CancelledError

    store.holders = away  # type: ignore[method-assign, assignment]
    with pytest.raises(asyncio.CancelledError):
        await actor.keeper.watch(sleep)
    assert caplog.text.count("is not known") == 2 and actor.held.serves(1)
