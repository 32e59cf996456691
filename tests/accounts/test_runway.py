"""How long credits last. Rule: README, "Hourly limit"."""

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
