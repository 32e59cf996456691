"""GET /account/usage: its parameters, and its answer as JSON or CSV.

Implements: actors/accounts/README.md, "Usage". Pure. accounts/usage.py has the limits of the query.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple
from urllib.parse import parse_qsl

import orjson

from actors.accounts.usage import DAY_HOURS, HOUR_MS, UsageLine, usage_mistake
from actors.errors import Err, Refusal
from actors.gateway.calls.accepted import prefers
from actors.times import unix_micros

CSV, JSON = b"text/csv", b"application/json"
CSV_HEADERS = ((b"content-disposition", b'attachment; filename="usage.csv"'),)
_HOUR_SECONDS = HOUR_MS // 1000
_NAMES = ("by", "from", "to", "format")
_HOUR_MICROS = 3_600_000_000


class UsageQuestion(NamedTuple):
    """Whole hours, counted from 1970: from first_hour to before end_hour."""

    first_hour: int
    end_hour: int
    by: tuple[str, ...]
    as_csv: bool


def parse_usage(query: bytes, headers: Iterable[tuple[bytes, bytes]], now: int) -> UsageQuestion | Refusal:
    """now: Unix seconds. `from` is rounded down to its hour and `to` up, so that every sum is exact."""
    given: dict[str, str] = {}
    for name, value in parse_qsl(query.decode("latin-1"), keep_blank_values=True):
        if name == "api-key":
            continue
        if name not in _NAMES or name in given:
            return _bad(f"parameters are {', '.join(_NAMES)}, each at most once")
        given[name] = value
    kind = given.get("format")
    if kind not in (None, "json", "csv"):
        return _bad("format must be json or csv")
    end = _hour(given["to"], rounds_up=True) if "to" in given else -(-now // _HOUR_SECONDS)
    if end is None:
        return _bad_time("to")
    first = _hour(given["from"], rounds_up=False) if "from" in given else end - DAY_HOURS
    if first is None:
        return _bad_time("from")
    by = tuple(given.get("by", "method").split(","))
    mistake = usage_mistake(first, end, by)
    if mistake is not None:
        return _bad(mistake)
    return UsageQuestion(first, end, by, kind == "csv" or (kind is None and prefers(headers, CSV, JSON)))


def usage_body(question: UsageQuestion, lines: Sequence[UsageLine]) -> bytes:
    """Make the answer as JSON. Rows are sorted by the requested columns."""
    rows = [
        dict(zip(question.by, columns, strict=True)) | {"calls": line.calls, "credits": line.credits}
        for columns, line in _sorted(question, lines)
    ]
    totals = {"calls": sum(line.calls for line in lines), "credits": sum(line.credits for line in lines)}
    first, end = _iso(question.first_hour), _iso(question.end_hour)
    return orjson.dumps({"from": first, "to": end, "by": question.by, "rows": rows, "totals": totals})


def usage_csv(question: UsageQuestion, lines: Sequence[UsageLine]) -> bytes:
    """Make a CSV of the same rows below a line of names (RFC 4180).

    No cell begins with a sign, so that no program reads a name as a formula."""
    table = [(*question.by, "calls", "credits")]
    table += [(*columns, str(line.calls), str(line.credits)) for columns, line in _sorted(question, lines)]
    return "".join(f"{','.join(map(cell, row))}\r\n" for row in table).encode()


def _sorted(question: UsageQuestion, lines: Sequence[UsageLine]) -> list[tuple[tuple[str, ...], UsageLine]]:
    shown = [(tuple(_column(name, line) for name in question.by), line) for line in lines]
    return sorted(shown, key=lambda row: row[0])


def _column(name: str, line: UsageLine) -> str:
    if name == "method":
        return line.method or ""
    if name == "key":
        return str(line.key) if line.key else ""
    return _iso(line.hour) if name == "hour" else _iso(line.hour)[:10]


def cell(text: str) -> str:
    if text.startswith(("=", "+", "-", "@")):
        text = f"'{text}"
    return '"' + text.replace('"', '""') + '"' if any(mark in text for mark in ',"\r\n') else text


def _hour(text: str, rounds_up: bool) -> int | None:
    """Parse a time in Unix seconds or ISO 8601 to its hour; None: it is malformed."""
    micros = unix_micros(text)
    if micros is None:
        return None
    return -(-micros // _HOUR_MICROS) if rounds_up else micros // _HOUR_MICROS


def _iso(hour: int) -> str:
    return f"{datetime.fromtimestamp(hour * _HOUR_SECONDS, UTC):%Y-%m-%dT%H:%M:%SZ}"


def _bad_time(name: str) -> Refusal:
    return _bad(f"{name} must be a time in UTC, such as 2026-11-22T19:00:00Z or 2026-11-22, or Unix seconds")


def _bad(detail: str) -> Refusal:
    return Refusal(Err.INVALID_REQUEST, detail)
