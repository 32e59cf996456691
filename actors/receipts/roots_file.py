"""The file of signed statements outside the database: what an audit compares the ledger with.

Implements: decisions, "Signed roots". A shell. One file a series, a line of JSON each: a key where a new one signs
from there on, and statements with the leaves of their accounts. It is only ever appended to. A machine that a series
comes to begins a file of its own, with the next statement; the audit reads any number of files together.
"""

import os
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
from nacl.exceptions import BadSignatureError
from nacl.signing import VerifyKey

from actors.receipts.root_keys import RootKey
from actors.receipts.statements import SignedStatement, Statement, parse, root_of

_TAIL_BYTES = 64 << 20  # More than any line has.
_AGAIN_MAX = 1_000


class BrokenRoots(Exception):
    """A line of a file of roots is not what was written; one sentence that says which and why."""


class _Line(msgspec.Struct, omit_defaults=True):
    statement: str = ""
    key: str = ""
    signature: str = ""
    leaves: str = ""
    public_key: str = ""  # Of a line that names a key.


class RootsFile:
    """Of one series. Blocking: to be used in a thread."""

    def __init__(self, folder: Path, series: int) -> None:
        self.path = folder / f"roots-{series}.jsonl"
        self._key_id = ""

    def newest(self) -> int | None:
        """The number of the newest statement; None: there is no file. A last line that is not whole, as a crash leaves
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
                return _statement(read, self.path).number
        return None

    def append(self, key: RootKey, statements: Sequence[SignedStatement]) -> None:
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


def read_roots(path: Path) -> Iterator[WrittenStatement]:
    """The statements of one file in their order, each checked: its leaves have its root, its signature is by the key
    that the file names, and it follows the one before. One that comes again as it was, as by an owner that was just
    replaced, is passed over. Raises OSError, BrokenRoots."""
    keys: dict[str, VerifyKey] = {}
    before: WrittenStatement | None = None
    recent: deque[bytes] = deque(maxlen=_AGAIN_MAX)
    with path.open("rb") as file:
        for raw in file:
            if not raw.endswith(b"\n"):
                return  # Not whole: the service was killed while it wrote.
            line = _decode(raw, path)
            if line.public_key:
                keys[line.key] = VerifyKey(bytes.fromhex(line.public_key))
                continue
            statement = _statement(line, path)
            signed = SignedStatement(
                line.statement, line.key, bytes.fromhex(line.signature), bytes.fromhex(line.leaves)
            )
            if signed.digest in recent:
                continue
            recent.append(signed.digest)
            if root_of(signed.leaves) != statement.root:
                raise BrokenRoots(f"{path}: the accounts of statement {statement.number} are not those of its root")
            try:
                keys[line.key].verify(signed.text.encode(), signed.signature)
            except (KeyError, BadSignatureError, ValueError):
                raise BrokenRoots(f"{path}: the signature of statement {statement.number} is not by its key") from None
            if before is not None and (statement.number, statement.previous) != (
                before.statement.number + 1,
                before.signed.digest,
            ):
                raise BrokenRoots(f"{path}: statement {statement.number} does not follow the one before it")
            before = WrittenStatement(statement, signed)
            yield before


def _decode(line: bytes, path: Path) -> _Line:
    try:
        return msgspec.json.decode(line, type=_Line)
    except (msgspec.DecodeError, ValueError) as error:
        raise BrokenRoots(f"{path}: a line is no statement ({error})") from None


def _statement(line: _Line, path: Path) -> Statement:
    statement = parse(line.statement)
    if statement is None:
        raise BrokenRoots(f"{path}: a line has a statement of another form")
    return statement
