"""The rate of an engine among racers: within the rate, equal, and in whole requests where it is small."""

from hypothesis import given
from hypothesis import strategies as st

from actors.sends.shares import MILLI, share_milli

NAMES = [f"send-racer-{number}" for number in range(16)]


def shares(engine: int, rate_milli: int, racers: list[str]) -> list[int]:
    return [share_milli(engine, rate_milli, racers, name) for name in racers]


@given(st.integers(0, 15), st.integers(1, 10_000 * MILLI), st.lists(st.sampled_from(NAMES), min_size=1, unique=True))
def test_shares_are_equal_and_never_more_than_the_rate(engine: int, rate_milli: int, racers: list[str]) -> None:
    """A share of less than one request a second is the whole of a rate that small: two of them may leave together."""
    found = shares(engine, rate_milli, racers)
    assert sum(found) <= rate_milli and any(found)
    assert len({share for share in found if share}) == 1
    assert min(share for share in found if share) >= min(MILLI, rate_milli)
    assert sum(found) > rate_milli - len(racers)  # Nothing is left over but roundings.


def test_a_small_rate_is_for_few_racers() -> None:
    racers = NAMES[:3]
    assert shares(0, 6 * MILLI, racers) == [2_000] * 3
    assert shares(0, 2 * MILLI, racers) == [1_000, 1_000, 0]
    assert shares(0, 1 * MILLI, racers) == [1_000, 0, 0]
    assert shares(0, 500, racers) == [500, 0, 0]


def test_each_engine_begins_with_other_racers() -> None:
    """With as many regions as racers, each racer has one."""
    assert [shares(engine, MILLI, NAMES[:3]) for engine in range(3)] == [
        [1_000, 0, 0],
        [0, 1_000, 0],
        [0, 0, 1_000],
    ]
