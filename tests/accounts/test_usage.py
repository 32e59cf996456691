"""What may be asked about usage."""

import pytest

from actors.accounts.usage import HOURLY_DAYS_MAX, RANGE_DAYS_MAX, bucket_hours, usage_mistake


@pytest.mark.parametrize(
    ("question", "told"),
    [
        ((0, 24, ()), "by must be"),
        ((0, 24, ("method", "method")), "each once"),
        ((0, 24, ("method; DROP TABLE ledger",)), "by must be"),
        ((25, 24, ("hour",)), "not be after"),
        ((-1, 24, ("hour",)), "1970"),
        ((0, 10**12, ("day",)), "2199"),
        ((0, HOURLY_DAYS_MAX * 24 + 2, ("hour", "method")), "31 days apart by hour"),
        ((0, RANGE_DAYS_MAX * 24 + 2, ("day", "method")), "92 days apart"),
    ],
)
def test_a_question_is_bounded_and_its_refusal_says_how(question: tuple[int, int, tuple[str, ...]], told: str) -> None:
    assert told in (usage_mistake(*question) or "")


def test_the_largest_questions_are_allowed_in_any_order_of_columns() -> None:
    assert usage_mistake(0, HOURLY_DAYS_MAX * 24, ("hour", "day", "method")) is None
    assert usage_mistake(24, 24, ("hour",)) is None  # An empty range.
    assert usage_mistake(5, 5 + RANGE_DAYS_MAX * 24, ("day", "method")) is None
    assert [bucket_hours(by) for by in (("method",), ("day",), ("day", "hour"))] == [0, 24, 1]
