"""Recent statistics of each leg and of all races.

Implements: GET /stats/landing; the figures of legs.
Pure: times are arguments, in Unix milliseconds. In memory of each racer: a restart loses only the figures of minutes. A
race is won by all its legs together, since the chain does not say over which of them a transaction came.
Each racer gives its part: a document that has, in place of percentiles, how often each time came. A replica makes one
document of all parts.
"""

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

WINDOW_MS = 600_000
_ROWS_MAX = 50_000
_SHOWN_PERCENTILES = (50, 90, 99)
FRESH_MS = 5_000  # Every replica asks for the part, which takes up to 0.1 s to make.
_DIGITS = 3  # Digits of a time in a part: exact below a second, and a part stays small.


@dataclass(frozen=True, slots=True)
class _LegRow:
    at_ms: int
    leg: str
    submitted: bool
    acknowledged_ms: int | None


@dataclass(frozen=True, slots=True)
class _RaceRow:
    at_ms: int
    legs: frozenset[str]
    landed: bool
    landing_ms: int
    retries: int


@dataclass(slots=True)
class LandingStatistics:
    since_ms: int
    _legs: deque[_LegRow] = field(default_factory=lambda: deque(maxlen=_ROWS_MAX))
    _races: deque[_RaceRow] = field(default_factory=lambda: deque(maxlen=_ROWS_MAX))
    _made: dict[str, Any] | None = None
    _made_at_ms: int = 0

    def leg_reported(self, at_ms: int, leg: str, submitted_ms: int | None, acknowledged_ms: int | None) -> None:
        took = None if submitted_ms is None or acknowledged_ms is None else acknowledged_ms - submitted_ms
        self._legs.append(_LegRow(at_ms, leg, submitted_ms is not None, took))

    def race_ended(self, at_ms: int, legs: Sequence[str], landed: bool, landing_ms: int, retries: int) -> None:
        self._races.append(_RaceRow(at_ms, frozenset(legs), landed, landing_ms, retries))

    def recent(self, now_ms: int, names: Sequence[str]) -> dict[str, Any]:
        """Return a part that is at most five seconds old."""
        if self._made is None or not 0 <= now_ms - self._made_at_ms < FRESH_MS:
            self._made, self._made_at_ms = self.part(now_ms, names), now_ms
        return self._made

    def part(self, now_ms: int, names: Sequence[str]) -> dict[str, Any]:
        """Make the part of this racer. names: legs that are shown, also where they did nothing."""
        for rows in (self._legs, self._races):
            while rows and rows[0].at_ms <= now_ms - WINDOW_MS:
                rows.popleft()
        landed = [row for row in self._races if row.landed]
        return {
            "window_seconds": max(0, min(WINDOW_MS, now_ms - self.since_ms)) // 1000,
            "races": len(self._races),
            "landed": len(landed),
            "landed_on_first_try": sum(row.retries == 0 for row in landed),
            "landing_ms": _counted([row.landing_ms for row in landed]),
            "legs": {name: self._leg(name) for name in names},
        }

    def _leg(self, name: str) -> dict[str, Any]:
        rows = [row for row in self._legs if row.leg == name]
        took = [row.acknowledged_ms for row in rows if row.acknowledged_ms is not None]
        races = [row for row in self._races if name in row.legs]
        return {
            "attempts": len(rows),
            "submitted": sum(row.submitted for row in rows),
            "acknowledged": len(took),
            "acknowledge_ms": _counted(took),
            "races": len(races),
            "races_landed": sum(row.landed for row in races),
        }


def landing_document(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Make the document of GET /stats/landing from the parts of all racers; at least one."""
    document = _together(parts)
    document["window_seconds"] = max(part["window_seconds"] for part in parts)
    names = dict.fromkeys(name for part in parts for name in part["legs"])
    legs = [part["legs"] for part in parts]
    document["legs"] = {name: _together([each[name] for each in legs if name in each]) for name in names}
    return document


def _together(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Add figures of the same names; times become percentiles."""
    found: dict[str, Any] = {}
    for name, value in rows[0].items():
        if isinstance(value, int):
            found[name] = sum(row[name] for row in rows)
        elif name.endswith("_ms"):
            found[name] = _percentiles(sum((Counter(row[name]) for row in rows), Counter()))
        else:
            found[name] = None  # Not a sum; the caller sets it.
    return found


def _counted(values: Sequence[int]) -> dict[int, int]:
    return dict(Counter(map(_rounded, values)))


def _rounded(value: int) -> int:
    return round(value, min(0, _DIGITS - len(str(value))))


def _percentiles(times: "Counter[int]") -> dict[str, int | None]:
    """Take percentiles by nearest rank; None where there are no values."""
    ascending = sorted(times.elements())
    return {
        f"p{rank}": ascending[max(0, -(-len(ascending) * rank // 100) - 1)] if ascending else None
        for rank in _SHOWN_PERCENTILES
    }
