"""Tables as Parquet files, read back by the library that people read them with."""

import io
import time
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.gateway.pages.parquet import Column, ColumnKind, parquet_file

COLUMNS = (
    Column("at", ColumnKind.TIME_MS),
    Column("amount", ColumnKind.NUMBER),
    Column("key", ColumnKind.NUMBER, optional=True),
    Column("type", ColumnKind.TEXT),
    Column("method", ColumnKind.TEXT, optional=True),
)
NUMBERS = st.integers(-(2**63), 2**63 - 1)
ROWS = st.lists(
    st.tuples(st.integers(0, 7 * 10**12), NUMBERS, st.none() | NUMBERS, st.text(max_size=5), st.none() | st.text()),
    max_size=40,
)


def read(file: bytes) -> Any:
    return pytest.importorskip("pyarrow.parquet").read_table(io.BytesIO(file))


@given(ROWS)
def test_a_reader_finds_what_was_written(rows: list[tuple[Any, ...]]) -> None:
    """Rule: exact integers and texts of every kind, times in UTC, and None where a value is not known."""
    table = read(parquet_file(COLUMNS, rows))
    assert table.column_names == [column.name for column in COLUMNS]
    assert [str(kind) for kind in table.schema.types] == ["timestamp[ms, tz=UTC]", "int64", "int64", "string", "string"]
    pandas_free = [
        [value.value if name == "at" else value.as_py() for value in table[name]] for name in table.column_names
    ]
    assert list(zip(*pandas_free, strict=True)) == rows


def test_a_time_is_that_moment() -> None:
    at = datetime(2026, 11, 28, 19, 0, 0, 123_000, UTC)
    table = read(parquet_file(COLUMNS[:1], [(int(at.timestamp() * 1000),)]))
    assert table["at"][0].as_py() == at
    assert [field.nullable for field in read(parquet_file(COLUMNS, [])).schema] == [False, False, True, False, True]


def test_many_columns_and_long_runs_are_read_too() -> None:
    """Lists of 15 and more, and runs of more than 63, have another form in the file."""
    columns = [Column(f"c{number}", ColumnKind.NUMBER, optional=True) for number in range(20)]
    rows = [[None if 100 <= line < 300 else line] * 20 for line in range(500)]
    assert read(parquet_file(columns, rows)).column("c19").to_pylist() == [row[0] for row in rows]


def test_a_full_page_holds_no_event_loop() -> None:
    """Rule: nothing holds an event loop for longer than 5 ms of its processor time."""
    row = (1_700_000_000_000, -5, None, "debit", "getTransaction")
    rows = [row * 3] * 500
    columns = [Column(f"{column.name}{turn}", *column[1:]) for turn in range(3) for column in COLUMNS]
    times = []
    for _ in range(5):
        began = time.thread_time()
        parquet_file(columns, rows)
        times.append(time.thread_time() - began)
    assert min(times) < 0.005, times
