"""Work of the loop and waiting for a processor are told apart, and the longest of a minute is kept."""

from hypothesis import given
from hypothesis import strategies as st

from actors.telemetry.loop_lateness import RECENT_SECONDS, Lateness, RecentMaximum, split

seconds = st.floats(-0.01, 10, allow_nan=False)


def test_lateness_with_work_is_held_and_lateness_without_is_stalled() -> None:
    """A busy neighbour on the machine must not look like a callback that works too long."""
    assert split(0.02, 0.022) == Lateness(0.02, 0.0)
    assert split(0.02, 0.0) == Lateness(0.0, 0.02)
    assert split(0.5, 0.125) == Lateness(0.125, 0.375)


def test_a_timer_that_is_early_is_not_late() -> None:
    """Timers of the loop count whole milliseconds."""
    assert split(-0.001, 0.01) == Lateness(0.0, 0.0)


@given(late=seconds, worked=seconds)
def test_the_two_parts_are_the_whole_and_neither_is_below_zero(late: float, worked: float) -> None:
    """No lateness is counted twice or lost."""
    held, stalled = split(late, worked)
    assert held >= 0 and stalled >= 0
    assert abs(held + stalled - max(0.0, late)) < 1e-9


def test_the_maximum_is_of_the_last_minute() -> None:
    """One long hold is seen by whoever looks within a minute, and not for ever."""
    maximum = RecentMaximum()
    maximum.add(0.5, 100.0)
    maximum.add(0.2, 100.5)
    maximum.add(0.1, 130.0)
    assert maximum.value(159.0) == 0.5
    assert maximum.value(100.0 + RECENT_SECONDS + 2) == 0.1
    assert maximum.value(1_000.0) == 0.0


def test_a_maximum_keeps_one_value_a_second() -> None:
    """The memory of a watch that runs for a year is bounded."""
    maximum = RecentMaximum()
    for tick in range(100_000):
        maximum.add(0.001, tick * 0.01)
    assert len(maximum._slices) <= RECENT_SECONDS + 2
