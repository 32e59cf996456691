"""The manual clock that tests trust, and the real one."""

import pytest

from actors.clock import ManualClock, SystemClock


def test_a_manual_clock_stands_still() -> None:
    """Nothing in a test happens by itself."""
    clock = ManualClock(1_500)
    assert (clock.now(), clock.now_ms(), clock.monotonic()) == (1, 1_500, 1.5)
    assert (clock.now(), clock.now_ms(), clock.monotonic()) == (1, 1_500, 1.5)


def test_all_its_faces_advance_together() -> None:
    """A test that moves time moves deadlines and timestamps alike."""
    clock = ManualClock(0)
    clock.advance(0.4)
    assert (clock.now(), clock.now_ms(), clock.monotonic()) == (0, 400, 0.4)
    clock.advance(0.6)
    assert (clock.now(), clock.now_ms(), clock.monotonic()) == (1, 1_000, 1.0)


def test_it_does_not_go_back() -> None:
    """Rules may rely on monotonic time."""
    with pytest.raises(AssertionError):
        ManualClock().advance(-1)


def test_its_wall_clock_can_be_set() -> None:
    """A day ahead and back again; the monotonic clock goes on as if nothing had happened."""
    clock = ManualClock(1_500)
    clock.ahead_seconds = 86_400
    clock.advance(1)
    assert (clock.now(), clock.now_ms(), clock.monotonic()) == (86_402, 86_402_500, 2.5)
    clock.ahead_seconds = 0
    assert (clock.now(), clock.now_ms(), clock.monotonic()) == (2, 2_500, 2.5)


def test_the_real_clock_agrees_with_itself() -> None:
    """Seconds and milliseconds are of one clock, rounded down, and the monotonic one never falls."""
    clock = SystemClock()
    before, seconds, after = clock.now_ms(), clock.now(), clock.now_ms()
    assert before // 1000 <= seconds <= after // 1000
    first = clock.monotonic()
    assert clock.monotonic() >= first
