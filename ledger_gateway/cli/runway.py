"""Estimates how fast an account spends its credits, and how long they last. Pure.

The rate is that of a window of whole hours; credits that expire before they would be spent are left out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from ledger_gateway.records import CreditBatch

_HOUR_SECONDS = 3_600


@dataclass(frozen=True, slots=True)
class Runway:
    """credits_per_day: of the window, rounded up. hours_left: whole hours until nothing is left; None: none is spent.

    expiring: credits that will expire before they are spent at this rate.
    """

    credits_per_day: int
    hours_left: int | None
    expiring: int


def runway(balance: int, spent: int, window_hours: int, batches: Sequence[CreditBatch], now: int) -> Runway:
    """balance, spent: credits, at least 0. window_hours: in which they were spent. now: Unix seconds."""
    assert window_hours > 0, window_hours
    rate = Fraction(max(spent, 0), window_hours * _HOUR_SECONDS)  # Credits a second.
    in_batches = sum(batch.remaining for batch in batches)
    spends_at, expiring = Fraction(now), 0
    lasting = max(balance - in_batches, 0)  # Credits that no batch tells of have no expiry that is known.
    for batch in sorted(batches, key=lambda batch: batch.expires_at):  # The order in which they are spent.
        until = max(Fraction(batch.expires_at), spends_at)
        used = min(Fraction(batch.remaining), (until - spends_at) * rate) if rate else Fraction(0)
        if rate:
            spends_at += used / rate
            expiring += int(batch.remaining - used)
    if not rate:
        return Runway(0, None, 0)
    spends_at += lasting / rate
    return Runway(-(-spent * 24 // window_hours), int((spends_at - now) / _HOUR_SECONDS), expiring)
