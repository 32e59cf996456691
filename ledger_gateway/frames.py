"""Entries of the ledger and rows of usage as frames of pandas, polars or Arrow, and the ledger as a Parquet file.

Implements: actors/accounts/README.md, "Listings of the ledger" and "Usage". Pure, but for `write_ledger`, and for the
libraries, each of which is imported by the function that needs it (the optional extra `data` has pandas and pyarrow).
Numbers are integers of 64 bits and times are times in UTC: nothing is rounded, and an empty frame has the same types.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, BinaryIO

from ledger_gateway.records import LedgerEntry, Usage, UsageRow

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

    from ledger_gateway.client import Gateway

_TIME, _NUMBER, _TEXT = "time", "number", "text"
_LEDGER: Mapping[str, str] = MappingProxyType(
    {
        "number": _NUMBER,
        "timestamp": _TIME,
        "type": _TEXT,
        "method": _TEXT,
        "amount": _NUMBER,
        "balance": _NUMBER,
        "outcome": _TEXT,
        "description": _TEXT,
        "operation": _TEXT,
        "signature": _TEXT,
        "request_id": _TEXT,
        "digest": _TEXT,
        "cache": _TEXT,
        "key": _NUMBER,
    }
)
_USAGE: Mapping[str, str] = MappingProxyType(
    {"method": _TEXT, "hour": _TIME, "day": _TIME, "key": _TEXT, "calls": _NUMBER, "credits": _NUMBER}
)
_GROUP_ROWS = 20_000  # Rows held in memory while a Parquet file is written.


def ledger_to_pandas(entries: Iterable[LedgerEntry]) -> "pandas.DataFrame":
    """One row for each entry, in their order. `[entry async for entry in gateway.ledger_entries()]` gives them all."""
    return _pandas(_columns(entries, _LEDGER), _LEDGER)


def ledger_to_polars(entries: Iterable[LedgerEntry]) -> "polars.DataFrame":
    return _polars(_columns(entries, _LEDGER), _LEDGER)


def ledger_to_arrow(entries: Iterable[LedgerEntry]) -> "pyarrow.Table":
    return _arrow(_columns(entries, _LEDGER), _LEDGER)


def usage_to_pandas(usage: Usage) -> "pandas.DataFrame":
    """One row for each row of the answer: the columns that it was grouped by, calls and credits."""
    kinds = _of_usage(usage)
    return _pandas(_columns(usage.rows, kinds), kinds)


def usage_to_polars(usage: Usage) -> "polars.DataFrame":
    kinds = _of_usage(usage)
    return _polars(_columns(usage.rows, kinds), kinds)


def usage_to_arrow(usage: Usage) -> "pyarrow.Table":
    kinds = _of_usage(usage)
    return _arrow(_columns(usage.rows, kinds), kinds)


async def write_ledger(
    gateway: "Gateway", path: Path, told: Callable[[int], None] = lambda _: None, **filters: str | None
) -> int:
    """Write the ledger to a new Parquet file, newest entry first, and return the number of entries.

    filters: as `Gateway.ledger_entries` has them. told: how many are written, from time to time. Memory stays flat, so
    the ledger may be of any length. Raises FileExistsError; an error on the way leaves no file.
    """
    parquet = _library("pyarrow.parquet")
    with new_file(path) as file:
        written, schema = 0, _arrow(_columns((), _LEDGER), _LEDGER).schema
        with parquet.ParquetWriter(file, schema, compression="zstd") as writer:
            async for entries in _groups(gateway.ledger_entries(**filters)):
                writer.write_table(ledger_to_arrow(entries))
                written += len(entries)
                told(written)
        return written


@contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """Open a file that does not exist yet. Whoever fails to fill it leaves none. Raises FileExistsError."""
    with path.open("xb") as file:
        try:
            yield file
        except BaseException:
            path.unlink()
            raise


async def _groups(entries: AsyncIterator[LedgerEntry]) -> AsyncIterator[list[LedgerEntry]]:
    found: list[LedgerEntry] = []
    async for entry in entries:
        found.append(entry)
        if len(found) == _GROUP_ROWS:
            yield found
            found = []
    if found:
        yield found


def _of_usage(usage: Usage) -> dict[str, str]:
    return {name: kind for name, kind in _USAGE.items() if name in (*usage.by, "calls", "credits")}


def _columns(rows: Iterable[LedgerEntry | UsageRow], kinds: Mapping[str, str]) -> dict[str, Sequence[Any]]:
    kept = list(rows)
    found: dict[str, Sequence[Any]] = {}
    for name, kind in kinds.items():
        values = [getattr(row, name) for row in kept]
        found[name] = [None if value is None else _moment(value) for value in values] if kind == _TIME else values
    return found


def _moment(text: str) -> datetime:
    """A time of an answer: ISO 8601 in UTC, or a day."""
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _pandas(columns: Mapping[str, Sequence[Any]], kinds: Mapping[str, str]) -> "pandas.DataFrame":
    pandas = _library("pandas")
    types = {_TIME: "datetime64[ms, UTC]", _NUMBER: "Int64", _TEXT: "string"}
    return pandas.DataFrame(
        {name: pandas.array(list(values), dtype=types[kinds[name]]) for name, values in columns.items()}
    )


def _polars(columns: Mapping[str, Sequence[Any]], kinds: Mapping[str, str]) -> "polars.DataFrame":
    polars = _library("polars")
    types = {_TIME: polars.Datetime("ms", "UTC"), _NUMBER: polars.Int64, _TEXT: polars.String}
    return polars.DataFrame(dict(columns), schema={name: types[kind] for name, kind in kinds.items()})


def _arrow(columns: Mapping[str, Sequence[Any]], kinds: Mapping[str, str]) -> "pyarrow.Table":
    pyarrow = _library("pyarrow")
    types = {_TIME: pyarrow.timestamp("ms", "UTC"), _NUMBER: pyarrow.int64(), _TEXT: pyarrow.string()}
    return pyarrow.table(dict(columns), schema=pyarrow.schema([(name, types[kind]) for name, kind in kinds.items()]))


def _library(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        wanted = name.partition(".")[0]
        extra = "'ledger-gateway[data]'" if wanted != "polars" else "polars"
        raise ImportError(f"this frame needs {wanted}: pip install {extra}") from None
