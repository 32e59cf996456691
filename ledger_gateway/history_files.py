"""Files of signals, written group by group from the JSON lines of GET /signals/history.

Implements: README.md of this folder, "History". A shell over files; pyarrow is needed for two of the formats.
"""

import csv
import io
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from pathlib import Path
from typing import BinaryIO

import msgspec

from ledger_gateway.history import COLUMNS, arrow_batches, arrow_schema

Add = Callable[[bytes], object]


def writer_of(path: Path) -> Callable[[BinaryIO], AbstractContextManager[Add]]:
    """Return what writes a file of this name. Raises ImportError where pyarrow is missing, and ValueError."""
    writers = {".jsonl": _lines, ".csv": _commas, ".parquet": _parquet, ".arrow": _arrow}
    if path.suffix not in writers:
        raise ValueError(f"{path.name}: the format must be one of {', '.join(writers)}")
    if path.suffix in (".parquet", ".arrow"):
        arrow_schema()
    return writers[path.suffix]


@contextmanager
def _lines(file: BinaryIO) -> Iterator[Add]:
    yield file.write


@contextmanager
def _commas(file: BinaryIO) -> Iterator[Add]:
    """Write CSV; lists are separated by spaces, as in the gateway's own CSV."""
    decoder = msgspec.json.Decoder()
    file.write(",".join(COLUMNS).encode() + b"\n")

    def add(lines: bytes) -> None:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        for row in decoder.decode_lines(lines):
            writer.writerow([_cell(row.get(name)) for name in COLUMNS])
        file.write(text.getvalue().encode())

    yield add


def _cell(value: object) -> object:
    if isinstance(value, list):
        return " ".join(value)
    return str(value).lower() if isinstance(value, bool) else value


@contextmanager
def _parquet(file: BinaryIO) -> Iterator[Add]:
    parquet = import_module("pyarrow.parquet")
    with parquet.ParquetWriter(file, arrow_schema(), compression="zstd") as writer:
        yield lambda lines: [writer.write_batch(batch) for batch in arrow_batches(lines)]


@contextmanager
def _arrow(file: BinaryIO) -> Iterator[Add]:
    ipc = import_module("pyarrow.ipc")
    with ipc.new_stream(file, arrow_schema()) as writer:
        yield lambda lines: [writer.write_batch(batch) for batch in arrow_batches(lines)]
