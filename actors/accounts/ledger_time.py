"""Decides the ledger's time from three clocks, and whether they agree.

Implements: threat 53 (the wall clock of one process jumps for a moment); money rule 6.
Pure: every time is an argument, in milliseconds. `steady` is the monotonic clock of this process, `wall` its wall
clock.
Not here: reading the clocks (ledger_clock.py).

Three clocks take part: this process's wall clock, its monotonic clock, and the clock of the database, which comes with
every answer of the database. An answer says how far the database's clock is ahead of the monotonic clock; that
difference stays the same as long as nobody sets the database's clock.

The ledger's time is the monotonic clock plus a difference that two of the three clocks support: the wall clock and the
database where they agree; else the difference that was kept so far, while one of them still supports it; else the
database alone. So a wall clock that jumps on one process moves no entry, no expiry date and no session.

An act that cannot be undone, such as the expiry of a batch, needs more: `agreed_ms` gives a time only while the wall
clock and the database agree, and only when the database's clock has moved in step with the monotonic clock for
SETTLING_MS. That covers a machine whose one clock serves both, and which is set to a wrong date for a while.
"""

from datetime import UTC, datetime
from typing import NamedTuple

TOLERANCE_MS = 10_000  # Clocks kept by NTP differ by less than a second; an answer may take another second.
ANSWER_MS_MAX = 1_000  # A slower answer says too little about the moment at which the database read its clock.
SETTLING_MS = 600_000  # Ten minutes: an operator who sets a clock wrong sees it on the health page and sets it right.
_PARTITIONS_BEFORE, _PARTITIONS_AHEAD = 1, 2  # Months: a clock that is set back still finds its partition.


class Clocks(NamedTuple):
    """The clocks as of the newest answer of the database, each as its difference from the monotonic clock."""

    ledger_ms: int
    database_ms: int
    anchor_ms: int  # The database's difference at `since_ms`: small steps add up, and must be noticed too.
    since_ms: int  # Monotonic time since which the database's clock has moved in step.
    stepped: bool  # True: the clock was set at `since_ms`; False: it was first read then.


def after_answer(before: Clocks | None, database_ms: int, wall_ms: int, asked_ms: int, steady_ms: int) -> Clocks:
    """Return the clocks after an answer of the database with its time.

    asked_ms, steady_ms: the monotonic clock when the database was asked and when it answered. The database read its
    clock in between, so that the difference computed here is at most ANSWER_MS_MAX too small and never too large.
    """
    if before is not None and steady_ms - asked_ms > ANSWER_MS_MAX:
        return before
    database, wall = database_ms - steady_ms, wall_ms - steady_ms
    if _near(wall, database):
        ledger = wall  # The wall clock is preferred, because it is read without a network in between.
    elif before is not None and (_near(wall, before.ledger_ms) or _near(database, before.ledger_ms)):
        ledger = before.ledger_ms
    else:
        ledger = database
    if before is None:
        return Clocks(ledger, database, database, steady_ms, stepped=False)
    if _near(database, before.anchor_ms):
        return Clocks(ledger, database, before.anchor_ms, before.since_ms, before.stepped)
    return Clocks(ledger, database, database, steady_ms, stepped=True)


def agreed_ms(clocks: Clocks | None, wall_ms: int, steady_ms: int) -> int | None:
    """Return the time for acts that cannot be undone: the earliest clock that counts. None: do no such act now."""
    if (
        clocks is None
        or steady_ms - clocks.since_ms < SETTLING_MS
        or not _near(wall_ms - steady_ms, clocks.database_ms)
    ):
        return None
    return min(wall_ms, steady_ms + clocks.database_ms, steady_ms + clocks.ledger_ms)


def doubt(clocks: Clocks | None, wall_ms: int, steady_ms: int) -> str | None:
    """Return why the clocks are in doubt, for a person, or None. A recent start alone is no doubt."""
    if clocks is None:
        return None
    ahead_seconds = (wall_ms - steady_ms - clocks.database_ms) / 1000
    if abs(ahead_seconds) * 1000 > TOLERANCE_MS:
        side = "ahead of" if ahead_seconds > 0 else "behind"
        return f"the wall clock of this process is {abs(ahead_seconds):.0f} s {side} the database's clock"
    if clocks.stepped and steady_ms - clocks.since_ms < SETTLING_MS:
        return f"the database's clock was set less than {SETTLING_MS // 1000} s ago"
    return None


def _near(one: int, other: int) -> bool:
    return abs(one - other) <= TOLERANCE_MS


def months(now_ms: int) -> list[int]:
    """Return the first milliseconds of the months whose partitions entries of about this time may need."""
    today = datetime.fromtimestamp(now_ms / 1000, UTC)
    month = today.year * 12 + today.month - 1
    numbers = range(month - _PARTITIONS_BEFORE, month + _PARTITIONS_AHEAD + 1)
    return [int(datetime(number // 12, number % 12 + 1, 1, tzinfo=UTC).timestamp()) * 1000 for number in numbers]
