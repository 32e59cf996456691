"""Signals for data work: the events of a time, by kind, program and mint, as rows, a pandas frame, an Arrow table or a
Parquet file.

Implements: the reading side of the history. Corrections are applied: what a fork removed is not there, what moved has
its new slot. pandas and pyarrow are the optional extra `data`, and are imported where they are used.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from actors.signals.history import HistoryQuery, SignalHistory
from actors.signals.log import NO_CURSOR, LogEntry, cursor_key

_PAGE = 5_000
COLUMNS = (
    *("time_ms", "cursor", "kind", "program", "signature", "slot", "mint", "quote_asset", "curve_type", "complete"),
    *("lamports", "accounts", "wallets"),
)


def rows(entries: Iterable[LogEntry]) -> list[dict[str, Any]]:
    """Return one row for each signal that is on the chain, in the order of the log. time_ms: when the log got it."""
    found: dict[tuple[str, str, str], dict[str, Any]] = {}
    for entry in entries:
        event = entry.event
        if event is None:
            continue
        if entry.change == "removed":
            found.pop(event.identity, None)
        elif entry.change == "moved" and event.identity in found:
            found[event.identity]["slot"] = event.slot
        else:
            found[event.identity] = {
                "time_ms": cursor_key(entry.cursor)[0],
                "cursor": entry.cursor,
                **event.body(),
                "lamports": event.lamports,
                "accounts": list(event.accounts),
                "wallets": list(event.wallets),
            }
    return [{name: row[name] for name in COLUMNS} for row in found.values()]


async def events(
    history: SignalHistory,
    *,
    kinds: Sequence[str] | None = None,
    programs: Sequence[str] | None = None,
    mint: str | None = None,
    from_ms: int = 0,
    until_ms: int | None = None,
) -> list[dict[str, Any]]:
    """Read all events of a time. from_ms: inclusive; until_ms: exclusive; Unix milliseconds. None: no limit."""
    query, entries = HistoryQuery(kinds, programs, mint, until_ms), list[LogEntry]()
    cursor = f"{from_ms - 1}-4294967295" if from_ms > 0 else NO_CURSOR
    while page := await history.read(cursor, _PAGE, query):
        entries += page
        cursor = page[-1].cursor
    return rows(entries)


def to_pandas(found: Sequence[dict[str, Any]]) -> Any:
    """Return a pandas.DataFrame with a column `time` (UTC) beside those of the rows; lamports are whole numbers."""
    import pandas

    frame = pandas.DataFrame(list(found), columns=list(COLUMNS))
    frame["lamports"] = pandas.array([row["lamports"] for row in found], dtype="UInt64")  # Never by way of floats.
    frame["complete"] = frame["complete"].astype("boolean")
    frame.insert(0, "time", pandas.to_datetime(frame["time_ms"], unit="ms", utc=True))
    return frame


def to_arrow(found: Sequence[dict[str, Any]]) -> Any:
    """Return a pyarrow.Table. Its schema does not depend on the rows."""
    import pyarrow

    text, whole = pyarrow.string(), pyarrow.int64()
    types = dict.fromkeys(COLUMNS, text) | {"time_ms": whole, "slot": whole, "lamports": pyarrow.uint64()}
    types |= {"complete": pyarrow.bool_(), "accounts": pyarrow.list_(text), "wallets": pyarrow.list_(text)}
    return pyarrow.Table.from_pylist(list(found), schema=pyarrow.schema(list(types.items())))


def to_parquet(found: Sequence[dict[str, Any]], path: Path) -> None:
    import pyarrow.parquet

    pyarrow.parquet.write_table(to_arrow(found), path)
