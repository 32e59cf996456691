"""Files of signals: the names that choose a format, and rows as their formats have them."""

import csv
import io
from pathlib import Path

import pytest

from ledger_gateway.history import COLUMNS
from ledger_gateway.history_files import writer_of

from .test_history import U64, row


def written(path: Path, *groups: bytes) -> bytes:
    with path.open("wb") as file, writer_of(path)(file) as add:
        for group in groups:
            add(group)
    return path.read_bytes()


def test_another_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"one of \.jsonl, \.csv, \.parquet, \.arrow"):
        writer_of(tmp_path / "signals.xls")


def test_text_has_every_group_once(tmp_path: Path) -> None:
    """A comma or a quote in a mint is a cell of its own; lists are separated by spaces."""
    groups = row(1), row(2, mint='M",\n', complete=False)
    assert written(tmp_path / "a.jsonl", *groups) == b"".join(groups)
    head, first, second = csv.reader(io.StringIO(written(tmp_path / "a.csv", *groups).decode()))
    assert head == list(COLUMNS) and first[10:13] == [str(U64), "a b", ""] and second[6] == 'M",\n'
    assert (first[9], second[9]) == ("", "false")


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_binary_files_of_no_signals_have_their_columns(suffix: str, tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / f"a.{suffix}"
    written(path)
    table = parquet.read_table(path) if suffix == "parquet" else arrow.ipc.open_stream(path).read_all()
    assert table.num_rows == 0 and table.column_names == ["time", *COLUMNS[1:]]
