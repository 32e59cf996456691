"""Signed checkpoints: the newest link of every hash chain, in a file that is kept away from the database.

Implements: money rule 6; threat 56. A person who may write every table can change an entry and write
its whole chain anew; the chains then agree with themselves. A later audit compares them with a checkpoint: each link in
the file must still be in its chain. The file is signed (HMAC-SHA256), so it may lie anywhere; its key must be where a
person with the database is not.

The file is text, a line each: `ledger-gateway checkpoint 1 TIME`, then `account PUBKEY SEQ HASH` in the order of the
public keys, then `shard NUMBER SEQ HASH`, and last `hmac-sha256 SIGNATURE` over all bytes before it; bytes in hex.
Reading and writing keep one line in memory, and the newest facts of the shards.
"""

import hashlib
import hmac
import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import asyncpg

from actors.accounts.deposits import ASSIGN
from actors.accounts.facts import ChainLink

if TYPE_CHECKING:
    from actors.accounts.months.files import ExportedMonth
    from actors.accounts.signed_links import SignedLinks

KEY_BYTES = 32
_FIRST, _LAST = "ledger-gateway checkpoint 1", "hmac-sha256"


# Selects transfers whose entry precedes the checkpoint's link, and the link in the account's chain. For a detached
# month the fact about the transfer is still in the table, and the link is compared with the export.
_COVERED = (
    "SELECT (EXISTS (SELECT FROM ledger WHERE pubkey = $1 AND operation_id = ANY ($2) AND seq <= $3 AND amount > 0)"
    " OR EXISTS (SELECT FROM ledger_kept_facts WHERE pubkey = $1 AND method = 'deposit' AND seq <= $3"
    " AND description::jsonb ->> 'operation' = $5))"
    " AND (EXISTS (SELECT FROM ledger WHERE pubkey = $1 AND seq = $3 AND hash = $4) OR EXISTS ("
    "SELECT FROM ledger_carried WHERE pubkey = $1 AND (seq > $3 OR seq = $3 AND hash = $4)))"
)


class CheckpointError(Exception):
    """A checkpoint or its key cannot be used. The message says why and what to do."""


def load_key(path: Path, *, make: bool) -> bytes:
    """Return the signing key. make: create a missing file with a random key, readable by its owner only."""
    try:
        if make and not path.exists():
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w", encoding="ascii") as file:
                file.write(secrets.token_hex(KEY_BYTES) + "\n")
        key = bytes.fromhex(path.read_text(encoding="ascii").strip())
    except (OSError, ValueError) as error:
        raise CheckpointError(
            f"the key in {path} cannot be read ({error}); give the one that was used before"
        ) from None
    if len(key) != KEY_BYTES:
        raise CheckpointError(f"the key in {path} has {len(key)} bytes, wanted {KEY_BYTES}; give another file")
    return key


@dataclass(slots=True)
class Checkpoints:
    """Checkpoints of one audit.

    earlier: each of its links must still be in its chain. later: path to write when nothing differs. signed: links of
    signed statements, which must be in their chains too. exported: detached months."""

    earlier: "Checkpoint | None" = None
    later: Path | None = None
    key: bytes = b""
    signed: "SignedLinks | None" = None
    exported: "Sequence[ExportedMonth]" = ()


@contextmanager
def open_checkpoints(earlier: Path | None, later: Path | None, key: Path | None) -> Iterator[Checkpoints]:
    """Open the checkpoints that an audit reads and writes. A key that was created for it and signed nothing is
    removed."""
    if earlier is None and later is None:
        yield Checkpoints()
        return
    if key is None:
        raise CheckpointError("a checkpoint is signed: name its key's file with --key")
    is_new = not key.exists()
    before = _identity_of(later)
    secret = load_key(key, make=earlier is None)
    try:
        yield Checkpoints(None if earlier is None else Checkpoint(earlier, secret), later, secret)
    finally:
        if is_new and _identity_of(later) == before:
            key.unlink(missing_ok=True)


def _identity_of(path: Path | None) -> int | None:
    """Return a number that changes when the file is written anew."""
    return path.stat().st_ino if path is not None and path.exists() else None


class CheckpointWriter:
    """Writes a checkpoint to a temporary file. `finish` puts it in its place; `discard` removes it."""

    def __init__(self, path: Path, key: bytes, at: int) -> None:
        """at: Unix seconds of the database."""
        self._path, self._scratch = path, path.with_name(path.name + ".new")
        self._signature = hmac.new(key, digestmod=hashlib.sha256)
        try:
            self._file = self._scratch.open("wb")
        except OSError as error:
            raise CheckpointError(f"{path} cannot be written: {error.strerror}; give another file") from None
        self._line(f"{_FIRST} {at}")

    def account(self, pubkey: bytes, link: ChainLink) -> None:
        """Add an account's link. Call in the order of public keys, before all shards."""
        self._line(f"account {pubkey.hex()} {link.seq} {link.hash.hex()}")

    def shard(self, number: int, link: ChainLink) -> None:
        self._line(f"shard {number} {link.seq} {link.hash.hex()}")

    def finish(self) -> None:
        self._file.write(f"{_LAST} {self._signature.hexdigest()}\n".encode())
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        self._scratch.replace(self._path)

    def discard(self) -> None:
        self._file.close()
        self._scratch.unlink(missing_ok=True)

    def _line(self, text: str) -> None:
        line = f"{text}\n".encode()
        self._signature.update(line)
        self._file.write(line)


class Checkpoint:
    """Reads an earlier checkpoint. The signature is checked before anything else."""

    def __init__(self, path: Path, key: bytes) -> None:
        """Raises CheckpointError."""
        self.shards: dict[int, ChainLink] = {}
        self._path = path
        try:
            self.at = self._verify(key)
        except (OSError, ValueError, IndexError) as error:
            raise CheckpointError(f"{path} is not a checkpoint ({error}); give one that the audit wrote") from None
        self._accounts = self._read_accounts()
        self._next = next(self._accounts, None)

    def link_of(self, pubkey: bytes) -> tuple[ChainLink | None, list[bytes]]:
        """Return the newest entry of this account at that time, and the public keys skipped on the way.

        Call in the order of public keys, once for each.
        """
        passed: list[bytes] = []
        while self._next is not None and self._next[0] < pubkey:
            passed.append(self._next[0])
            self._next = next(self._accounts, None)
        if self._next is None or self._next[0] != pubkey:
            return None, passed
        link = self._next[1]
        self._next = next(self._accounts, None)
        return link, passed

    def _verify(self, key: bytes) -> int:
        signature = hmac.new(key, digestmod=hashlib.sha256)
        at, signed = None, ""
        with self._path.open("rb") as file:
            for line in file:
                if signed:
                    raise ValueError("text follows its signature")
                words = line.decode("ascii").split()
                if at is None and not line.startswith(_FIRST.encode()):
                    raise ValueError("its first line is another")
                if words[0] == _LAST:
                    signed = words[1]
                    continue
                signature.update(line)
                at = int(words[-1]) if at is None else at
                if words[0] == "shard":
                    self.shards[int(words[1])] = _link(words)
        if at is None or not hmac.compare_digest(signed, signature.hexdigest()):
            raise ValueError("its signature is not by this key, or it was changed")
        return at

    def _read_accounts(self) -> Iterator[tuple[bytes, ChainLink]]:
        with self._path.open("rb") as file:
            for line in file:
                words = line.decode("ascii").split()
                if words[0] == "account":
                    yield bytes.fromhex(words[1]), _link(words)


class CoveredDeposits:
    """Asks whether deposits are in the chains that a checkpoint signs. That each chain is whole is for the ledger's own
    audit against the same checkpoint to say."""

    def __init__(self, connection: asyncpg.Connection, checkpoint: Checkpoint) -> None:
        self._connection, self._checkpoint = connection, checkpoint
        self._asked: tuple[bytes, ChainLink | None] = b"", None

    async def has(self, pubkey: bytes, operation: bytes) -> bool:
        """Return whether the checkpoint covers this deposit. Call in the order of public keys."""
        if self._asked[0] != pubkey:
            self._asked = pubkey, self._checkpoint.link_of(pubkey)[0]
        link = self._asked[1]
        if link is None:
            return False
        names = [operation, ASSIGN + operation]
        return bool(await self._connection.fetchval(_COVERED, pubkey, names, link.seq, link.hash, operation.hex()))


def _link(words: list[str]) -> ChainLink:
    return ChainLink(int(words[2]), bytes.fromhex(words[3]))
