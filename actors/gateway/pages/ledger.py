"""GET /account/ledger: its parameters, and its answer as JSON, CSV or Parquet.

Implements: actors/accounts/README.md, "Listings of the ledger"; interface, "Ledger entry", "Account endpoints". Pure.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

import orjson

from actors.accounts.listings import TYPES, LedgerFilter, LedgerLine, parse_cursor
from actors.calls import OPERATION_BYTES
from actors.errors import Err, Refusal
from actors.gateway.calls.accepted import preferred
from actors.gateway.pages.account import ledger_entry, parse_window
from actors.gateway.pages.parquet import Column, ColumnKind, parquet_file
from actors.gateway.pages.usage import CSV, JSON, cell
from actors.times import unix_ms

PARQUET = b"application/vnd.apache.parquet"
_FORMATS = {"json": JSON, "csv": CSV, "parquet": PARQUET}
_SAVED = b'attachment; filename="ledger.%b"'
_FILTERS = ("cursor", "from", "to", "type", "method", "operation", "format", "details")
_METHOD_CHARACTERS_MAX = 128
_OPERATION = re.compile(f"[0-9a-fA-F]{{{2 * OPERATION_BYTES}}}", re.ASCII)
_COLUMNS = (
    Column("timestamp", ColumnKind.TIME_MS),
    Column("type", ColumnKind.TEXT),
    Column("method", ColumnKind.TEXT, optional=True),
    Column("amount", ColumnKind.NUMBER),
    Column("balance", ColumnKind.NUMBER),
    Column("outcome", ColumnKind.TEXT, optional=True),
    Column("description", ColumnKind.TEXT),
    Column("number", ColumnKind.NUMBER),
    Column("operation", ColumnKind.TEXT, optional=True),
    Column("signature", ColumnKind.TEXT, optional=True),
    Column("request_id", ColumnKind.TEXT, optional=True),
    Column("digest", ColumnKind.TEXT, optional=True),
    Column("cache", ColumnKind.TEXT, optional=True),
    Column("key", ColumnKind.NUMBER, optional=True),
)
_NAMES = tuple(column.name for column in _COLUMNS)


class LedgerPage(NamedTuple):
    """content_type: one of _FORMATS. detailed: the answer has more than the interface's fields, because a parameter of
    _FILTERS was sent, or a table asked for."""

    offset: int
    limit: int
    filter: LedgerFilter
    content_type: bytes
    detailed: bool


def parse_ledger(query: bytes, headers: Iterable[tuple[bytes, bytes]]) -> LedgerPage | Refusal:
    """Parse the parameters; unknown ones are ignored, as the interface says."""
    window = parse_window(query)
    if isinstance(window, Refusal):
        return window
    given: dict[str, str] = {}
    for name, value in parse_qsl(query.decode("latin-1"), keep_blank_values=True):
        if name not in _FILTERS:
            continue
        if name in given:
            return _bad(f"{name} was sent twice")
        given[name] = value
    if "cursor" in given and window[0]:
        return _bad("a cursor takes the place of an offset: send one of both")
    found = filter_of(given)
    kind = given.get("format")
    if kind is not None and kind not in _FORMATS:
        return _bad(f"format must be one of {', '.join(_FORMATS)}")
    if given.get("details") not in (None, "true", "false"):
        return _bad("details must be true or false")
    if isinstance(found, Refusal):
        return found
    content_type = preferred(headers, (CSV, PARQUET), JSON) if kind is None else _FORMATS[kind]
    detailed = content_type != JSON or (bool(given) and given.get("details") != "false")
    return LedgerPage(*window, found, content_type, detailed)


def filter_of(given: dict[str, str]) -> LedgerFilter | Refusal:
    before = None
    if "cursor" in given:
        before = parse_cursor(given["cursor"])
        if before is None:
            return _bad("cursor must be the next_cursor of a page before")
    times: dict[str, int | None] = {name: unix_ms(given[name]) for name in ("from", "to") if name in given}
    for name, at_ms in times.items():
        if at_ms is None:
            return _bad(f"{name} must be a time in UTC, as 2026-11-22T19:00:00Z, 2026-11-22 or Unix seconds")
    kind = given.get("type")
    if kind is not None and kind not in TYPES:
        return _bad(f"type must be one of {', '.join(TYPES)}")
    method = given.get("method")
    if method is not None and not 0 < len(method) <= _METHOD_CHARACTERS_MAX:
        return _bad(f"method must have 1 to {_METHOD_CHARACTERS_MAX} characters")
    operation = given.get("operation")
    if operation is not None and not _OPERATION.fullmatch(operation):
        return _bad(f"operation must be {2 * OPERATION_BYTES} hexadecimal characters, as X-Receipt names them")
    return LedgerFilter(
        before,
        times.get("from"),
        times.get("to"),
        None if kind is None else TYPES[kind],
        method,
        None if operation is None else bytes.fromhex(operation),
    )


def ledger_answer(page: LedgerPage, lines: Sequence[LedgerLine]) -> tuple[bytes, list[tuple[bytes, bytes]]]:
    """Return the body, and headers beside its type: a table is saved as a file, and a header has the place of its next
    page."""
    if page.content_type == JSON:
        return ledger_body(page, lines), []
    body = ledger_csv(lines) if page.content_type == CSV else ledger_parquet(lines)
    headers = [(b"content-disposition", _SAVED % (b"csv" if page.content_type == CSV else b"parquet"))]
    cursor = next_cursor(page, lines)
    return body, headers if cursor is None else [*headers, (b"x-next-cursor", cursor.encode())]


def ledger_body(page: LedgerPage, lines: Sequence[LedgerLine]) -> bytes:
    """next_cursor: for the page after this one; null where this one was not full."""
    body: dict[str, Any] = {"entries": [ledger_entry(line, page.detailed) for line in lines]}
    if page.detailed:
        body["next_cursor"] = next_cursor(page, lines)
    return orjson.dumps(body)


def ledger_csv(lines: Sequence[LedgerLine]) -> bytes:
    """Make a CSV of the same entries below a line of names (RFC 4180)."""
    entries = [ledger_entry(line, detailed=True) for line in lines]
    table = [_NAMES, *(tuple(_cell(entry[name]) for name in _NAMES) for entry in entries)]
    return "".join(f"{','.join(row)}\r\n" for row in table).encode()


def ledger_parquet(lines: Sequence[LedgerLine]) -> bytes:
    """Make a Parquet file of the same entries: times are times, and credits integers of 64 bits."""
    rows = []
    for line in lines:
        entry = ledger_entry(line, detailed=True) | {"timestamp": line.at_ms}
        rows.append([entry[name] for name in _NAMES])
    return parquet_file(_COLUMNS, rows)


def _cell(value: str | int | None) -> str:
    """Format a cell; a negative amount begins with a sign, and is no formula."""
    return str(value) if isinstance(value, int) else cell(value or "")


def next_cursor(page: LedgerPage, lines: Sequence[LedgerLine]) -> str | None:
    return lines[-1].cursor if len(lines) == page.limit else None


def _bad(detail: str) -> Refusal:
    return Refusal(Err.INVALID_REQUEST, detail)
