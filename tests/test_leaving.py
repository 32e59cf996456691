"""A process that leaves ends its streams evenly over its grace, whatever comes and goes meanwhile."""

import asyncio
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.clock import ManualClock
from actors.leaving import FRONT_SECONDS, Leaving, due, window


@pytest.mark.parametrize("grace", [0.0, 1.0, 5.0, 30.0, 300.0])
def test_the_front_is_waited_for_and_clients_have_the_rest(grace: float) -> None:
    """Also where the grace is so short that the front may learn nothing in it."""
    first, last = window(grace)
    assert first == min(FRONT_SECONDS, 0.4 * grace) and first <= last == 0.8 * grace


@given(
    streams=st.integers(0, 500),
    steps=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 5), st.integers(0, 5)), max_size=60),
)
def test_streams_end_in_proportion_and_none_is_left(streams: int, steps: Sequence[tuple[float, int, int]]) -> None:
    """Some end by themselves meanwhile, and some come late; at each moment, at most the share that is due has been
    ended, rounded up."""
    ended, left = 0, streams
    for share, gone, late in sorted(steps):
        left = left - min(gone, left) + late
        count = due(ended, left, share)
        assert 0 <= count <= left
        assert count == 0 or ended + count <= (ended + left) * share + 1
        ended, left = ended + count, left - count
    assert due(ended, left, 1.0) == left and due(ended + left, 0, 1.0) == 0


class Streams:
    """So many streams; `ends` has the moment at which each was told to end."""

    def __init__(self, clock: ManualClock, left: int) -> None:
        self._clock, self.left = clock, left
        self.ends: list[float] = []
        self.takes = True

    def stop_taking(self) -> None:
        self.takes = False

    def end_some(self, count: int) -> None:
        self.left -= count
        self.ends += [self._clock.monotonic()] * count


async def left_by(grace_seconds: float, *counts: int) -> tuple[float, list[Streams]]:
    """Leave with so many streams of each kind; returns when that began, and the streams."""
    clock = ManualClock()

    async def sleep(seconds: float) -> None:
        clock.advance(seconds)
        await asyncio.sleep(0)

    leaving, began = Leaving(clock, sleep), clock.monotonic()
    kinds = [Streams(clock, count) for count in counts]
    leaving.add(*kinds)
    leaving.begin(grace_seconds)
    leaving.begin(grace_seconds)
    assert leaving.is_leaving and not any(kind.takes for kind in kinds)
    await leaving._background.finish()
    await leaving.stop()
    return began, kinds


async def test_each_kind_is_spread_over_the_grace_of_a_cluster() -> None:
    """30 s: nothing in the first three, the last one six before the end, no second with much more than its share."""
    began, (many, few, none) = await left_by(30.0, 2_100, 7, 0)
    assert (many.left, few.left, len(none.ends)) == (0, 0, 0)
    for kind in (many, few):
        seconds = [end - began for end in kind.ends]
        assert seconds[0] >= 3.0 and seconds[-1] <= 24.1
    assert max(sum(int(end - began) == second for end in many.ends) for second in range(30)) <= 102
    assert len({round(end) for end in few.ends}) == 7, "one after the other, not in one moment"


async def test_a_local_run_that_stops_ends_them_within_its_second() -> None:
    began, (streams,) = await left_by(1.0, 50)
    assert streams.left == 0 and max(streams.ends) - began < 1.0


async def test_a_process_that_leaves_without_grace_ends_them_at_once() -> None:
    _, (streams,) = await left_by(0.0, 50)
    assert streams.left == 0


async def test_a_process_that_is_cut_off_ends_its_streams_and_takes_new_ones() -> None:
    """It does not leave: when its link is back before Ray ends it, it serves on."""
    clock = ManualClock()

    async def sleep(seconds: float) -> None:
        clock.advance(seconds)
        await asyncio.sleep(0)

    leaving, streams, began = Leaving(clock, sleep), Streams(clock, 20_000), clock.monotonic()
    leaving.add(streams)
    leaving.end_present()
    await leaving._background.finish()
    assert streams.left == 0 and streams.takes and not leaving.is_leaving
    assert streams.ends[-1] - began < 11.0
    assert max(Counter(streams.ends).values()) <= 42, "of which 19 take about 2 ms of the loop"
