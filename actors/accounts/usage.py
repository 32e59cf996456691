"""Usage of one account: calls and credits by method, hour and day.

Implements: `GET /account/usage` (README.md, "Usage"). Pure: its nouns, its limits and the check of a question.
Not here: the sums (usage_store.py and functions.sql), parameters and JSON of the page (gateway/pages/usage.py).

A call is an entry of type `debit`. A refund takes its call out of the hour in which the call was charged, so no figure
is ever below zero and the sum over all time is the account's `total_consumed_credits`. Deposits, bonuses, adjustments
and expiries are no usage.
"""

import msgspec

HOUR_MS = 3_600_000
DAY_HOURS = 24
COLUMNS = ("method", "hour", "day")
RANGE_DAYS_MAX = 92
HOURLY_DAYS_MAX = 31
ROWS_MAX = 10_000
READS_MAX = 2  # Questions of one account under way at its owner; further ones are told to wait.
_HOUR_MAX = 2_016_000  # In the year 2199, the last one that the ledger has months for.


class UsageLine(msgspec.Struct, frozen=True):
    """One row. method None: the question was not by method. hour: the first of the hour or day, counted from 1970; 0
    where the question was by neither."""

    method: str | None
    hour: int
    calls: int
    credits: int


def usage_mistake(first_hour: int, end_hour: int, by: tuple[str, ...]) -> str | None:
    """Return one sentence on what is wrong with a question for the hours from first_hour to before end_hour."""
    if not by or len(set(by)) < len(by) or not set(by) <= set(COLUMNS):
        return f"by must be one or more of {', '.join(COLUMNS)}, separated by commas, each once"
    if not 0 <= first_hour <= _HOUR_MAX or not 0 <= end_hour <= _HOUR_MAX:
        return "from and to must be times from 1970 to 2199"
    if first_hour > end_hour:  # Equal times are an empty range, which has no rows.
        return "from must not be after to"
    days = HOURLY_DAYS_MAX if "hour" in by else RANGE_DAYS_MAX
    if end_hour - first_hour > days * DAY_HOURS + 1:  # Two times so far apart touch one hour more.
        by_hour = " by hour" if "hour" in by else ""
        return f"from and to may be at most {days} days apart{by_hour}: ask for a shorter range, or for several"
    return None


def bucket_hours(by: tuple[str, ...]) -> int:
    """Return how many hours make one row; 0: the rows are by method alone."""
    return 1 if "hour" in by else DAY_HOURS if "day" in by else 0
