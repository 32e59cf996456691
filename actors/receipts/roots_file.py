"""The file of signed statements outside the database: an audit compares the ledger with it.

Implements: decisions, "Signed roots". A shell. One file a series, a line of JSON each: a key where a new one signs from
there on, and statements with the leaves of their accounts. It is only ever appended to. A machine that takes a series
over begins its own file with the next statement; the audit reads any number of files together.
"""

import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from actors.receipts.checks import SeriesEnd, Unproven, checked, followed
from actors.receipts.root_keys import ProvenKey, name_of
from actors.receipts.statements import SignedStatement, Statement, parse

_TAIL_BYTES = 64 << 20  # More than any line has.
_AGAIN_MAX = 1_000


class BrokenRoots(Exception):
    """A line of the file was damaged. The message says which and why."""


class _Line(msgspec.Struct, omit_defaults=True):
    statement: str = ""
    key: str = ""
    signature: str = ""
    leaves: str = ""
    public_key: str = ""  # Set in a line that names a key.


FILES = "roots-*.jsonl"  # In a folder: one for each series.


class RootsFile:
    """The file of one series. Blocking: use it in a thread."""

    def __init__(self, folder: Path, series: int) -> None:
        self.path = folder / f"roots-{series}.jsonl"
        self._key_id = ""

    def newest(self) -> SeriesEnd | None:
        """The newest statement; None: there is none. A last line that is not whole, as a crash leaves
        it, is cut off. Raises OSError, BrokenRoots."""
        if not self.path.exists():
            return None
        with self.path.open("r+b") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _TAIL_BYTES))
            tail = file.read()
            whole = tail[: tail.rfind(b"\n") + 1]
            file.truncate(size - len(tail) + len(whole))
        for line in reversed(whole.splitlines()):
            read = _decode(line, self.path)
            if read.statement:
                self._key_id = read.key
                signed = _signed(read, self.path)
                return SeriesEnd(_statement(read, self.path).number, signed.digest)
        return None

    def append(self, key: ProvenKey, statements: Sequence[SignedStatement]) -> None:
        """Write statements, all signed by this key, to the disk. Raises OSError."""
        lines = []
        if key.id != self._key_id:
            lines.append(_Line(key=key.id, public_key=key.public.hex()))
        lines += [_Line(one.text, one.key_id, one.signature.hex(), one.leaves.hex()) for one in statements]
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab") as file:
            file.write(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
            file.flush()
            os.fsync(file.fileno())
        self._key_id = key.id


class WrittenStatement(msgspec.Struct, frozen=True):
    """A statement of a file, whose root and signature were checked."""

    statement: Statement
    signed: SignedStatement


def files_of(paths: Iterable[Path]) -> Iterator[Path]:
    """The files of roots: each of these, or of a folder all that it has. Raises BrokenRoots where one has none."""
    for path in paths:
        files = sorted(path.glob(FILES)) if path.is_dir() else [path]
        if not files:
            raise BrokenRoots(f"{path} has no file of roots; name their folder, or the files")
        yield from files


def read_roots(path: Path, pinned: Mapping[str, ProvenKey] | None = None) -> Iterator[WrittenStatement]:
    """The statements of one file in their order, each checked: its leaves have its root, its signature is by the key
    that the file names, and it follows the one before. One that comes again as it was, as by an owner that was just
    replaced, is passed over.

    pinned: the keys that are believed, with their times, as they were published; None: those that the file names, each
    until a little after the next one began. Raises OSError, BrokenRoots."""
    keys = _FileKeys(pinned)
    place: SeriesEnd | None = None
    recent: deque[bytes] = deque(maxlen=_AGAIN_MAX)
    with path.open("rb") as file:
        for raw in file:
            if not raw.endswith(b"\n"):
                return  # Incomplete: the service was killed while it wrote.
            line = _decode(raw, path)
            if line.public_key:
                keys.name(line, path)
                continue
            signed = _signed(line, path)
            if signed.digest in recent:
                continue
            recent.append(signed.digest)
            try:
                statement = checked(signed, keys.known)
                keys.signs(signed.key_id, statement.at_ms)
                before = place or SeriesEnd(statement.number - 1, None)
                place = followed(before, statement.series, [signed])
            except Unproven as error:
                raise BrokenRoots(f"{path}: {error}") from None
            yield WrittenStatement(statement, signed)


class _FileKeys:
    """The keys that a reader of a file trusts."""

    def __init__(self, pinned: Mapping[str, ProvenKey] | None) -> None:
        self._is_pinned = pinned is not None
        self.known = dict(pinned or {})
        self._signs = ""

    def name(self, line: _Line, path: Path) -> None:
        """Handle a line that names a key."""
        try:
            public = bytes.fromhex(line.public_key)
        except ValueError:
            public = b""
        if name_of(public) != line.key:
            raise BrokenRoots(f"{path}: key {line.key} has another public half")
        if not self._is_pinned:
            self.known.setdefault(line.key, ProvenKey(line.key, public, 0))
        elif line.key not in self.known:
            raise BrokenRoots(f"{path}: key {line.key} is not among the keys that you gave")

    def signs(self, key_id: str, at_ms: int) -> None:
        """A statement of this time is signed by it. The first one of another key retires the one before it."""
        if self._is_pinned or key_id == self._signs or self.known[key_id].retired_ms is not None:
            return  # An older key that still signs is within its time: `checked` has seen to that.
        if self._signs:
            self.known[self._signs] = self.known[self._signs]._replace(retired_ms=at_ms)
        self._signs = key_id


def _decode(line: bytes, path: Path) -> _Line:
    try:
        return msgspec.json.decode(line, type=_Line)
    except (msgspec.DecodeError, ValueError) as error:
        raise BrokenRoots(f"{path}: a line is no statement ({error})") from None


def _signed(line: _Line, path: Path) -> SignedStatement:
    try:
        return SignedStatement(line.statement, line.key, bytes.fromhex(line.signature), bytes.fromhex(line.leaves))
    except ValueError:
        raise BrokenRoots(f"{path}: a line has a signature or accounts that are no hexadecimal numbers") from None


def _statement(line: _Line, path: Path) -> Statement:
    statement = parse(line.statement)
    if statement is None:
        raise BrokenRoots(f"{path}: a line has a statement of another form")
    return statement
