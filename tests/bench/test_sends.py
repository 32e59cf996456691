"""What the bench of sends calls wrong."""

import pytest

from bench.sends import Sent, audited, percentiles, timed

GOOD = Sent("a", 1_000.0, 1_900.0, "confirmed", 50)
DEAD = Sent("b", 1_000.0, 1_900.0, "failed", 2)


def test_answers_and_charges_that_agree_with_the_chain_are_good() -> None:
    found = audited([GOOD, DEAD], {"a"}, 52)
    assert (found.pop("sends"), found.pop("landed"), found.pop("debited"), found.pop("never_taken")) == (2, 1, 52, 0)
    assert set(found.values()) == {0}


@pytest.mark.parametrize(
    ("sent", "landed", "debited", "wrong"),
    [
        (Sent("a", 0, 0, "failed", 2), {"a"}, 2, "told_failed_and_landed"),
        (Sent("a", 0, 0, "confirmed", 50), set(), 50, "landing_charged_not_on_chain"),
        (Sent("a", 0, 0, "confirmed", 2), set(), 2, "told_confirmed_not_on_chain"),
        (Sent("a", 0, 0, "unknown", 50), {"a"}, 50, "without_outcome"),
        (Sent("a", 0, 0, "confirmed", 2), {"a"}, 2, "wrong_charges"),
        (Sent("a", 0, 0, "confirmed", 50), {"a"}, 100, "credits_off_by"),
    ],
)
def test_each_lie_has_a_name(sent: Sent, landed: set[str], debited: int, wrong: str) -> None:
    assert audited([sent], landed, debited)[wrong] > 0


def test_times_are_from_the_request() -> None:
    found = timed([GOOD], {"a": 1_007})
    assert found["first_broadcast_ms"]["p50"] == 7 and found["answered_ms"]["p99"] == 900
    assert percentiles([1.0, 2.0, 3.0, 4.0]) == {"p50": 3.0, "p90": 4.0, "p99": 4.0}
