from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from actors.accounts.rate_window import Window, reset_at


@given(limit=st.integers(1, 20), steps=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 30)), max_size=60))
def test_no_second_admits_more_than_its_limit(limit: int, steps: list[tuple[int, int]]) -> None:
    """Fixed windows of one second; what is told as left is exactly what can still be taken."""
    window, admitted, second = Window(), Counter[int](), 1_700_000_000
    for pause, wanted in steps:
        second += pause
        left = window.left(second, limit)
        assert left == limit - admitted[second]
        units = min(wanted, left)
        if units:
            window.take(second, units)
        admitted[second] += units
        assert admitted[second] <= limit


def test_a_clock_that_is_set_back_locks_nobody_out() -> None:
    """Threat 20: an earlier second is a fresh window."""
    window = Window()
    window.take(1_700_086_400, 5)
    assert window.left(1_700_000_000, 5) == 5


def test_a_lowered_limit_leaves_nothing_below_zero() -> None:
    window = Window()
    window.take(10, 50)
    assert window.left(10, 20) == 0


def test_the_window_ends_with_its_second() -> None:
    assert reset_at(1_700_000_000) == 1_700_000_001
