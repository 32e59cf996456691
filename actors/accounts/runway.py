"""Estimates how long the credits of an account last at the pace of its last day.

Implements: README, "Hourly limit" (`runway` of `GET /account/info`). Pure.
The pace is that of the last 24 whole hours and the present one, or of the account's life where that is shorter, at
least an hour. Credits are spent in the order in which they expire; those that expire unspent are reported.
"""

from collections.abc import Sequence
from typing import NamedTuple

from actors.accounts.credits import Batch
from actors.accounts.hourly_limit import HOUR_SECONDS

_DAY_SECONDS = 86_400


class Runway(NamedTuple):
    """Estimate. credits_an_hour: rounded up. hours_left: whole hours until nothing is left; None: nothing is spent.
    expiring: credits that will expire before they are spent at this pace."""

    credits_an_hour: int
    hours_left: int | None
    expiring: int


def runway_of(in_day: int, hour_credits: int, created_at: int, batches: Sequence[Batch], now: int) -> Runway:
    """Compute the estimate.

    in_day: credits of the 24 whole hours before this one. hour_credits: of this hour. created_at, now: Unix seconds.
    batches: ordered by expiry."""
    spent = max(0, in_day + hour_credits)
    if not spent:
        return Runway(0, None, 0)
    seconds = max(HOUR_SECONDS, min(_DAY_SECONDS + now % HOUR_SECONDS, now - created_at))
    # Computed in integers: credits times seconds, and times multiplied by the credits of the pace. Fractions took 40 us
    # a batch.
    moment, expiring = now * spent, 0
    for batch in batches:
        work, room = batch.remaining * seconds, max(0, batch.expires_at * spent - moment)
        moment += min(work, room)
        expiring += max(0, work - room) // seconds
    return Runway(-(-spent * HOUR_SECONDS // seconds), (moment - now * spent) // (spent * HOUR_SECONDS), expiring)
