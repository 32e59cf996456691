"""Signals as JSON lines, CSV, Parquet and Arrow, piece by piece.

Implements: decisions, "history of signals". Pure. Encoders work in a process of their own, history_worker.py. Of one
encoder, `write` and `end` are called one after the other; what was only prepared leaves no trace in it. pyarrow is the
optional extra `data`; without it two formats are not offered. A replica does not import it: that would take memory.
"""

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import Any, Protocol

import msgspec
import orjson

from actors.signals.history_slices import StoredSignal

COLUMNS = (
    *("time_ms", "cursor", "kind", "program", "signature", "slot", "mint", "quote_asset", "curve_type", "complete"),
    *("lamports", "accounts", "wallets", "block_time"),
)
_TEXTS = {"jsonl": "application/x-ndjson", "csv": "text/csv"}
_FRAMES = {"parquet": "application/vnd.apache.parquet", "arrow": "application/vnd.apache.arrow.stream"}
_PIECE_BYTES = 1 << 16
_READ_BYTES = 1 << 20  # Bytes of JSON lines read at once; a row has at most a few thousand.
_GROUPS_AT_ONCE = 8
_ROWS_A_PIECE = 150  # Of text: about 64 KiB.
END_KEY = b"ledger_gateway.end"


class Encoder(Protocol):
    def head(self) -> bytes:
        """Return the bytes before all rows."""
        ...

    def prepare(self, groups: Sequence[Sequence[StoredSignal]]) -> Any:
        """Convert rows for `write`."""
        ...

    def write(self, prepared: Any) -> list[bytes]:
        """Return the pieces of the answer for these rows."""
        ...

    def end(self, told: Mapping[str, Any]) -> bytes:
        """Return the bytes after all rows. told: how the answer ended."""
        ...


def offered_types() -> dict[str, str]:
    """Return the content type of each format by name. The first one is the default."""
    return _TEXTS | (_FRAMES if find_spec("pyarrow") else {})


def offered_formats() -> dict[str, Callable[[], Encoder]]:
    """Return the encoder class of each format by name. Imports pyarrow."""
    texts: dict[str, Callable[[], Encoder]] = {"jsonl": JsonRows, "csv": CommaSeparated}
    try:
        import pyarrow
        import pyarrow.json
        import pyarrow.parquet as parquet
    except ImportError:
        return texts
    types = _Columns(pyarrow, pyarrow.json)
    return texts | {
        "parquet": lambda: ParquetFile(parquet, types),
        "arrow": lambda: ArrowStream(pyarrow, types),
    }


class _JsonRow(msgspec.Struct, gc=False):
    time_ms: int
    cursor: str
    kind: str
    program: str
    signature: str
    slot: int
    mint: str | None
    quote_asset: str | None
    curve_type: str | None
    complete: bool | None
    lamports: int | None
    accounts: tuple[str, ...]
    wallets: tuple[str, ...]
    block_time: int | None


def _json_row(row: StoredSignal) -> _JsonRow:
    event = row.event
    return _JsonRow(
        *(row.cursor_ms, row.cursor, event.kind, event.program, event.signature, event.slot, event.mint),
        *(event.quote_asset, event.curve_type, event.complete, event.lamports, event.accounts, event.wallets),
        event.block_time,
    )


class JsonRows:
    """The last line is {"end": ...}: an answer without it was cut."""

    def __init__(self) -> None:
        self._encoder = msgspec.json.Encoder()

    def head(self) -> bytes:
        return b""

    def prepare(self, groups: Sequence[Sequence[StoredSignal]]) -> list[bytes]:
        return _texts(groups, lambda rows: self._encoder.encode_lines([_json_row(row) for row in rows]))

    def write(self, prepared: list[bytes]) -> list[bytes]:
        return prepared

    def end(self, told: Mapping[str, Any]) -> bytes:
        return orjson.dumps({"end": told}) + b"\n"


class CommaSeparated:
    """Lists are separated by spaces. The last line is `# end: {...}`: an answer without it was cut."""

    def head(self) -> bytes:
        return ",".join(COLUMNS).encode() + b"\n"

    def prepare(self, groups: Sequence[Sequence[StoredSignal]]) -> list[bytes]:
        return _texts(groups, _csv)

    def write(self, prepared: list[bytes]) -> list[bytes]:
        return prepared

    def end(self, told: Mapping[str, Any]) -> bytes:
        return b"# end: " + orjson.dumps(told) + b"\n"


def _csv(rows: Sequence[StoredSignal]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(
        (
            *(row.cursor_ms, row.cursor, event.kind, event.program, event.signature, event.slot, event.mint),
            *(event.quote_asset, event.curve_type, _COMPLETE[event.complete], event.lamports),
            *(" ".join(event.accounts), " ".join(event.wallets), event.block_time),
        )
        for row in rows
        for event in (row.event,)
    )
    return text.getvalue().encode()


_COMPLETE = {True: "true", False: "false", None: None}


def _texts(groups: Sequence[Sequence[StoredSignal]], encode: Callable[[Sequence[StoredSignal]], bytes]) -> list[bytes]:
    pieces = []
    for group in groups:
        for start in range(0, len(group), _ROWS_A_PIECE):
            pieces.append(encode(group[start : start + _ROWS_A_PIECE]))
    return pieces


class _Columns:
    """The schema of both binary formats: `time` in place of `time_ms`; it depends on no row.

    pyarrow reads the rows as JSON lines, without Python's lock. To make arrays of lists it would hold the lock, and
    import pandas.
    """

    def __init__(self, arrow: Any, json: Any) -> None:
        text, whole, texts = arrow.string(), arrow.int64(), arrow.list_(arrow.string())
        types = dict.fromkeys(COLUMNS, text) | {"time_ms": whole, "slot": whole, "block_time": whole}
        types |= {"lamports": arrow.uint64(), "complete": arrow.bool_(), "accounts": texts, "wallets": texts}
        self._arrow, self._json, self._lines = arrow, json, JsonRows()
        self._reading = json.ReadOptions(use_threads=False, block_size=_READ_BYTES)
        self._parsing = json.ParseOptions(explicit_schema=arrow.schema(list(types.items())))
        self._time = arrow.timestamp("ms", tz="UTC")
        self.schema = arrow.schema([("time", self._time), *list(types.items())[1:]])

    def batch(self, groups: Sequence[Sequence[StoredSignal]]) -> Any:
        """Return one record batch."""
        if not groups:
            return self._arrow.RecordBatch.from_arrays(
                [self._arrow.nulls(0, kind) for kind in self.schema.types], schema=self.schema
            )
        # In several groups, because joining all lines of a slice would hold the lock for milliseconds.
        parts = (groups[start : start + _GROUPS_AT_ONCE] for start in range(0, len(groups), _GROUPS_AT_ONCE))
        tables = [self._read(b"".join(self._lines.prepare(part))) for part in parts]
        # One piece of memory for each column: a slice is far below the 2 GiB that one array of texts may have.
        columns = [column.chunk(0) for column in self._arrow.concat_tables(tables).combine_chunks().columns]
        return self._arrow.RecordBatch.from_arrays([columns[0].view(self._time), *columns[1:]], schema=self.schema)

    def _read(self, lines: bytes) -> Any:
        source = self._arrow.BufferReader(lines)
        return self._json.read_json(source, read_options=self._reading, parse_options=self._parsing)


class _Sink(io.RawIOBase):
    """Collects what an encoder writes."""

    def __init__(self) -> None:
        self._written: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._written.append(bytes(data))
        return len(data)

    def take(self) -> list[bytes]:
        taken, self._written = self._written, []
        return taken


class _Tabular:
    """Writes batches of columns with a writer of pyarrow's, which writes into the sink."""

    _writer: Any

    def __init__(self, columns: _Columns) -> None:
        self._columns, self._sink = columns, _Sink()

    def head(self) -> bytes:
        return b"".join(self._sink.take())

    def prepare(self, groups: Sequence[Sequence[StoredSignal]]) -> Any:
        return self._columns.batch(groups)

    def write(self, prepared: Any) -> list[bytes]:
        self._writer.write_batch(prepared)
        return _pieces(self._sink.take())


class ArrowStream(_Tabular):
    """An IPC stream. Its last batch is empty and has the end as its own metadata; see `END_KEY`."""

    def __init__(self, arrow: Any, columns: _Columns) -> None:
        super().__init__(columns)
        self._writer = arrow.ipc.new_stream(self._sink, columns.schema)

    def end(self, told: Mapping[str, Any]) -> bytes:
        self._writer.write_batch(self._columns.batch([]), custom_metadata={END_KEY: orjson.dumps(told)})
        self._writer.close()
        return b"".join(self._sink.take())


class ParquetFile(_Tabular):
    """One row group for each slice. The file's metadata has the end; without it no reader opens the file."""

    def __init__(self, parquet: Any, columns: _Columns) -> None:
        super().__init__(columns)
        self._writer = parquet.ParquetWriter(self._sink, columns.schema, compression="zstd", compression_level=1)

    def end(self, told: Mapping[str, Any]) -> bytes:
        self._writer.add_key_value_metadata({END_KEY: orjson.dumps(told)})
        self._writer.close()
        return b"".join(self._sink.take())


def _pieces(written: Sequence[bytes]) -> list[bytes]:
    """Split large pieces, and join small ones."""
    pieces, small = list[bytes](), list[bytes]()
    for data in written:
        small.append(data)
        if len(data) >= _PIECE_BYTES or sum(map(len, small)) >= _PIECE_BYTES:
            joined = b"".join(small)
            pieces += [joined[start : start + _PIECE_BYTES] for start in range(0, len(joined), _PIECE_BYTES)]
            small = []
    return [*pieces, b"".join(small)] if small else pieces
