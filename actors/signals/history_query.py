"""The parameters of GET /signals/history.

Implements: decisions, "history of signals". Pure. A time after the year 9999 is taken as its end.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

from actors.errors import Err, Refusal
from actors.signals.events import KINDS
from actors.signals.filters import read_query
from actors.signals.history import HistoryQuery
from actors.signals.log import parse_cursor
from actors.times import unix_ms

Cursor = tuple[int, int]
_OWN = ("from", "to", "cursor", "format")
_FILTERS = ("kinds", "mint", "program")
_CREDITS = re.compile(r"[0-9]{1,18}")
_SEQUENCE_MAX = (1 << 32) - 1
_LAST_MS = 253_402_300_799_999  # The end of the year 9999.


class HistoryRequest(NamedTuple):
    """What a client asks for. from_ms: inclusive; until_ms: exclusive; of the time at which the log got a signal.

    after: only what comes after this place. credits_max: None: no cap. query.until_ms is until_ms.
    """

    format: str
    from_ms: int
    until_ms: int
    after: Cursor
    query: HistoryQuery
    credits_max: int | None


def read_history(
    query: Mapping[str, str], headers: Mapping[str, str], formats: Mapping[str, str], now_ms: int
) -> HistoryRequest | Refusal:
    """formats: the names that are offered, each with its content type; the first one is the default.

    Without `from`: everything that is kept. Without `to`: up to now.
    """
    for name in query:
        if name not in (*_OWN, *_FILTERS):
            return _bad(f"unknown parameter; wanted {', '.join(sorted((*_OWN, *_FILTERS)))}")
    wanted = read_query({name: value for name, value in query.items() if name in _FILTERS})
    if isinstance(wanted, Refusal):
        return wanted
    times = {"from": 0, "to": now_ms}
    for name in times:
        if name in query:
            at_ms = unix_ms(query[name])
            if at_ms is None:
                return _bad(
                    f"{name}: wanted a time in UTC, such as 2026-11-22T19:00:00Z or 2026-11-22, or Unix seconds"
                )
            times[name] = min(max(at_ms, 0), _LAST_MS)
    if times["from"] >= times["to"]:
        return _bad("from must be before to")
    after = (times["from"] - 1, _SEQUENCE_MAX) if times["from"] else (0, 0)
    if "cursor" in query:
        cursor = parse_cursor(query["cursor"])
        if cursor is None or cursor[1] > _SEQUENCE_MAX:
            return _bad("cursor: wanted the cursor of a row, or of the end of an answer before")
        after = max(after, cursor)
    chosen = _format(query.get("format"), headers.get("accept", ""), formats)
    if isinstance(chosen, Refusal):
        return chosen
    cap = headers.get("x-max-credits")
    if cap is not None and not _CREDITS.fullmatch(cap.strip()):
        return _bad("X-Max-Credits must be a whole number of credits, sent once")
    kinds, programs = wanted.filter.kinds, wanted.filter.programs
    return HistoryRequest(
        chosen,
        times["from"],
        times["to"],
        after,
        HistoryQuery(
            None if kinds is None or kinds == KINDS else sorted(kinds),
            None if programs is None else sorted(programs),
            wanted.filter.mint,
            times["to"],
        ),
        None if cap is None else int(cap),
    )


def _format(name: str | None, accept: str, formats: Mapping[str, str]) -> str | Refusal:
    if name is not None:
        return name if name in formats else _bad(f"format: wanted {' or '.join(formats)}")
    by_type = {content_type: each for each, content_type in formats.items()}
    for part in accept.lower().split(",")[:50]:
        if (found := by_type.get(part.partition(";")[0].strip())) is not None:
            return found
    return next(iter(formats))


def _bad(detail: str) -> Refusal:
    return Refusal(Err.INVALID_REQUEST, detail)
