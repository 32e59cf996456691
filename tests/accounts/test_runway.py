"""How long credits last. Rule: README, "Hourly limit"."""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from actors.accounts.credits import Batch, Source
from actors.accounts.runway import Runway, runway_of
from actors.units import Credits, UnixSeconds

NOW = 1_700_000_000 // 3_600 * 3_600
OLD = NOW - 90 * 86_400


def batch(left: int, hours: int) -> Batch:
    return Batch(1, Source.DEPOSIT, Credits(left), Credits(left), UnixSeconds(OLD), UnixSeconds(NOW + hours * 3_600))


def test_credits_last_as_long_as_the_pace_of_the_last_day_says() -> None:
    assert runway_of(240, 0, OLD, [batch(100, 9_999)], NOW) == Runway(10, 10, 0)
    assert runway_of(0, 0, OLD, [batch(100, 9_999)], NOW) == Runway(0, None, 0)
    assert runway_of(-5, 0, OLD, [batch(100, 9_999)], NOW) == Runway(0, None, 0)
    half_an_hour = NOW + 1_800
    assert runway_of(240, 5, OLD, [batch(100, 9_999)], half_an_hour).credits_an_hour == 10


def test_a_young_account_is_judged_by_its_own_life() -> None:
    assert runway_of(0, 100, NOW - 60, [batch(1_000, 9_999)], NOW) == Runway(100, 10, 0)
    assert runway_of(200, 0, NOW - 7_200, [batch(1_000, 9_999)], NOW) == Runway(100, 10, 0)


def test_credits_that_expire_before_they_are_spent_are_told() -> None:
    """The oldest are spent first."""
    assert runway_of(240, 0, OLD, [batch(100, 4), batch(50, 9_999)], NOW) == Runway(10, 9, 60)
    assert runway_of(240, 0, OLD, [batch(100, -1)], NOW) == Runway(10, 0, 100)


_batches = st.lists(st.tuples(st.integers(1, 10**15), st.integers(-50, 10_000)), max_size=20)


@given(_batches, st.integers(0, 10**15), st.integers(0, 10**12), st.integers(0, 3_599))
def test_whole_numbers_tell_what_fractions_tell(
    wanted: list[tuple[int, int]], in_day: int, of_hour: int, second: int
) -> None:
    """Exactly, as they are credits."""
    batches, now = [batch(left, hours) for left, hours in sorted(wanted, key=lambda one: one[1])], NOW + second
    told, spent = runway_of(in_day, of_hour, OLD, batches, now), in_day + of_hour
    if not spent:
        assert told == Runway(0, None, 0)
        return
    pace, until, expiring = Fraction(spent, 86_400 + second), Fraction(now), 0
    for one in batches:
        used = min(Fraction(one.remaining), max(Fraction(0), one.expires_at - until) * pace)
        until += used / pace
        expiring += int(one.remaining - used)
    assert (told.hours_left, told.expiring) == (int((until - now) // 3_600), expiring)
