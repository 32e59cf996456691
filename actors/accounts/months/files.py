"""The files of an exported month of the ledger: their names, columns and manifest.

Implements: decisions, "Detached months". A month is a folder `ledger-2025-11`: entries in the order of accounts, times
and numbers, the heads of each account's chain, the signed statements that have its entries, and `manifest.json`, which
is written last and has the size and the SHA-256 of each file. A folder gets its name when all of it is on the disk; the
rest of a killed export has another name, and the next export removes it. Not here: writing (exporting.py), verifying
(verifying.py).
"""

import hashlib
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from actors.accounts.bills import month_ms
from actors.units import PUBKEY_BYTES

FORMAT = "ledger-gateway month 1"
MANIFEST = "manifest.json"
ENTRIES, ACCOUNTS, STATEMENTS = "entries", "accounts", "statements"
ROWS_OF_FILE = 2_000_000  # Entries in one file of 100 to 300 MB.
ROWS_OF_GROUP = 20_000  # Rows read and written at a time, so that memory does not grow with the month.
STATEMENTS_OF_GROUP = 200  # A statement has 112 bytes for each of at most 1,024 accounts.
_MONTH = re.compile(r"(20[0-9]{2}|21[0-9]{2})-(0[1-9]|1[0-2])", re.ASCII)
_FOLDER = re.compile(r"ledger-(\d{4}-\d{2})", re.ASCII)
_PIECE = 1 << 20

_B, _I, _S, _T = "binary", "int64", "int16", "string"
COLUMNS: dict[str, tuple[tuple[str, str], ...]] = {
    ENTRIES: (
        *(("pubkey", _B), ("seq", _I), ("at_ms", _I), ("type", _S), ("amount", _I), ("balance", _I)),
        *(("operation", _B), ("method", _T), ("outcome", _S), ("description", _T), ("parcels", _T), ("hash", _B)),
    ),
    # before: hash before the first entry of the month. head: hash after the last one.
    ACCOUNTS: (("pubkey", _B), ("first", _I), ("before", _B), ("last", _I), ("head", _B)),
    STATEMENTS: (("text", _T), ("key_id", _T), ("signature", _B), ("leaves", _B)),
}


class ExportError(Exception):
    """An export cannot be made or used. The message says why and what to do."""


class Month(NamedTuple):
    """A month of the calendar, in UTC."""

    name: str
    first_ms: int
    next_ms: int

    @property
    def folder(self) -> str:
        return f"ledger-{self.name}"


def month_of(name: str) -> Month:
    """Parse the name of a month. Raises ExportError."""
    found = _MONTH.fullmatch(name)
    if found is None:
        raise ExportError(f"{name!r} is no month: name it as 2025-11, in UTC")
    return Month(name, *month_ms(int(found[1]), int(found[2])))


def month_from(first_ms: int) -> Month:
    """Return the month that begins at this time."""
    return month_of(f"{datetime.fromtimestamp(first_ms // 1000, UTC):%Y-%m}")


class FileRecord(msgspec.Struct, frozen=True):
    name: str
    rows: int
    bytes: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True):
    """sums: entries and credits by type. keys: of statements, as in `/.well-known/ledger-keys.json`."""

    format: str
    month: str
    first_ms: int
    next_ms: int
    made_at: str
    release: str
    entries: int
    accounts: int
    statements: int
    sums: dict[str, tuple[int, int]]
    files: list[FileRecord]
    keys: dict[str, Any]

    @property
    def of(self) -> Month:
        return Month(self.month, self.first_ms, self.next_ms)


class ExportedMonth(NamedTuple):
    """A folder with its manifest. digest: SHA-256 of the manifest's bytes, which identifies the whole export."""

    folder: Path
    manifest: Manifest
    digest: bytes

    def rows(self, kind: str) -> Iterator[list[Any]]:
        """Yield the rows of the files of a kind in groups, each a tuple in the order of COLUMNS. Raises ExportError."""
        arrow, parquet = _pyarrow()
        for record in self.manifest.files:
            if not record.name.startswith(kind):
                continue
            try:
                with parquet.ParquetFile(self.folder / record.name) as file:
                    if [field.name for field in file.schema_arrow] != [name for name, _ in COLUMNS[kind]]:
                        raise ExportError(f"{self.folder / record.name} has other columns than an export")
                    size = STATEMENTS_OF_GROUP if kind == STATEMENTS else ROWS_OF_GROUP
                    for batch in file.iter_batches(size, use_threads=False):
                        _require_form(self.folder / record.name, batch)
                        yield list(zip(*(column.to_pylist() for column in batch.columns), strict=True))
            except (OSError, arrow.ArrowException) as error:
                raise ExportError(
                    f"{self.folder / record.name} cannot be read ({error}): export the month again"
                ) from None

    def differing_files(self) -> list[str]:
        """Return a sentence for each file that differs from the manifest."""
        found = []
        for record in self.manifest.files:
            path = self.folder / record.name
            if not path.is_file():
                found.append(f"the file {record.name} is missing")
            elif (path.stat().st_size, sha256_of(path)) != (record.bytes, record.sha256):
                found.append(f"the file {record.name} is not the one that was written: its bytes differ")
        return found


def open_month(folder: Path) -> ExportedMonth:
    """Open an exported month. Raises ExportError."""
    path = folder / MANIFEST
    try:
        raw = path.read_bytes()
        manifest = msgspec.json.decode(raw, type=Manifest)
        wanted = month_of(manifest.month)
    except OSError as error:
        raise ExportError(f"{path} cannot be read ({error.strerror}): name the folder of an export") from None
    except msgspec.DecodeError as error:
        raise ExportError(f"{path} is no manifest of an export ({error})") from None
    if manifest.format != FORMAT or manifest.of != wanted:
        raise ExportError(f"{path} is of another format than {FORMAT!r}, or its times are not those of its month")
    if any("/" in record.name or record.name.startswith(".") for record in manifest.files):
        raise ExportError(f"{path} names a file outside its folder")
    return ExportedMonth(folder, manifest, hashlib.sha256(raw).digest())


def open_months(folders: Sequence[Path]) -> list[ExportedMonth]:
    """Open the months in these folders, oldest first; each folder is an export, or contains exports. Raises
    ExportError."""
    found: dict[str, ExportedMonth] = {}
    for folder in folders:
        inside = [folder] if (folder / MANIFEST).exists() else sorted(folder.glob("ledger-*"))
        inside = [one for one in inside if one == folder or _FOLDER.fullmatch(one.name)]
        if not inside:
            raise ExportError(f"{folder} has no export of a month: name the folder that `months export` wrote to")
        for one in inside:
            month = open_month(one)
            if month.manifest.month in found:
                raise ExportError(
                    f"{month.manifest.month} is given twice: in {found[month.manifest.month].folder} and {one}"
                )
            found[month.manifest.month] = month
    return [found[name] for name in sorted(found)]


class MonthWriter:
    """Writes a month's folder: its files, and at the end the manifest. Blocking."""

    def __init__(self, place: Path, month: Month) -> None:
        """place: the folder of exports. Removes the remains of a killed export. Raises ExportError."""
        self._arrow, self._parquet = _pyarrow()
        self._place, self._month = place, month
        self.target = place / month.folder
        if self.target.exists():
            raise ExportError(
                f"{self.target} is there already: `months verify` checks it; move it away to export the month again"
            )
        self._scratch = place / f".{month.folder}.unfinished"
        try:
            shutil.rmtree(self._scratch, ignore_errors=True)
            self._scratch.mkdir(parents=True)
        except OSError as error:
            raise ExportError(
                f"{self._scratch} cannot be made ({error.strerror}): name another folder with --to"
            ) from None
        self._open: dict[str, _OpenFile] = {}
        self._numbers: dict[str, int] = {}
        self._written: list[FileRecord] = []
        self.rows: dict[str, int] = dict.fromkeys(COLUMNS, 0)

    def write(self, kind: str, rows: Sequence[Sequence[Any]]) -> None:
        """Append rows, as one row group of the file."""
        if not rows:
            return
        file = self._open.get(kind)
        if file is None:
            file = self._open[kind] = self._begin(kind)
        columns = [
            self._arrow.array(values, self._arrow_type(name))
            for values, (_, name) in zip(zip(*rows, strict=True), COLUMNS[kind], strict=True)
        ]
        file.writer.write_table(self._arrow.Table.from_arrays(columns, schema=file.schema), row_group_size=len(rows))
        file.rows += len(rows)
        self.rows[kind] += len(rows)
        if file.rows >= ROWS_OF_FILE:
            self._end(kind)

    def finish(self, manifest: Manifest) -> ExportedMonth:
        """Close all files, write the manifest with their hashes, and give the folder its name. Raises ExportError."""
        for kind in list(self._open):
            self._end(kind)
        raw = msgspec.json.format(msgspec.json.encode(msgspec.structs.replace(manifest, files=self._written)))
        with (self._scratch / MANIFEST).open("wb") as file:
            file.write(raw + b"\n")
            file.flush()
            os.fsync(file.fileno())
        _sync_folder(self._scratch)
        self._scratch.rename(self.target)
        _sync_folder(self._place)
        return open_month(self.target)

    def discard(self) -> None:
        for file in self._open.values():
            file.writer.close()
        self._open.clear()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _begin(self, kind: str) -> "_OpenFile":
        number = self._numbers[kind] = self._numbers.get(kind, 0) + 1
        path = self._scratch / f"{kind}-{number:04d}.parquet"
        schema = self._arrow.schema([(name, self._arrow_type(type_)) for name, type_ in COLUMNS[kind]])
        # A dictionary is useless for hashes and names of operations, which are random.
        writer = self._parquet.ParquetWriter(
            path, schema, compression="zstd", use_dictionary=["method"] if kind == ENTRIES else False
        )
        return _OpenFile(path, writer, schema)

    def _end(self, kind: str) -> None:
        file = self._open.pop(kind)
        file.writer.close()
        with file.path.open("rb") as written:
            os.fsync(written.fileno())
        self._written.append(FileRecord(file.path.name, file.rows, file.path.stat().st_size, sha256_of(file.path)))

    def _arrow_type(self, name: str) -> Any:
        return getattr(self._arrow, name)()


def _require_form(path: Path, batch: Any) -> None:
    """Raise ExportError where values are missing, or the first one of a row is no public key."""
    has_keys = batch.schema.names[0] != "pubkey" or all(
        key is not None and len(key) == PUBKEY_BYTES for key in batch.column(0).to_pylist()
    )
    if any(column.null_count for column in batch.columns) or not has_keys:
        raise ExportError(f"{path} has values of another form than an export: take another copy, or export it again")


class _OpenFile:
    def __init__(self, path: Path, writer: Any, schema: Any) -> None:
        self.path, self.writer, self.schema, self.rows = path, writer, schema, 0


def sha256_of(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
    return digest.hexdigest()


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet as parquet
    except ImportError:
        raise ExportError("exports need pyarrow: install the product with its extra `data`") from None
    return pyarrow, parquet
