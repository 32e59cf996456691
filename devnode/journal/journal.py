"""The chain on disk: SQLite in WAL mode, one commit a slot.

Implements: durability (a killed node loses at most the slot being built), and history within a retention window:
blocks, transactions, the address index. One devnode for each data folder, by an advisory lock on a file in it; the
kernel releases the lock when the process ends in any way.
A separate thread writes, with many rows in each statement: SQLite releases the interpreter lock for each statement and
takes it again, and every change of the lock costs the chain's thread as much time as the writer.
Not here: reading (archive.py), rebuilding the chain (chain/chain.py).
"""

import fcntl
import os
import sqlite3
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

import msgspec
import orjson
from solders.account import Account
from solders.hash import Hash
from solders.pubkey import Pubkey
from solders.signature import Signature

from devnode.parsing.instructions import memo_text
from devnode.records.blockhashes import BLOCKHASHES_KEPT, RecentBlockhash
from devnode.records.commitment import Sealed
from devnode.records.records import Block, BlockHeader, TransactionRecord

LOCK_NAME = "devnode.lock"
FILE_NAME = "chain.sqlite3"
LAYOUT = 1
_SLOT_HASHES = 512
_SCHEMA = """
CREATE TABLE IF NOT EXISTS chain (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS accounts (
    pubkey TEXT PRIMARY KEY, lamports TEXT NOT NULL, data BLOB NOT NULL, owner TEXT NOT NULL,
    executable INTEGER NOT NULL, rent_epoch TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS blocks (
    slot INTEGER PRIMARY KEY, parent_slot INTEGER NOT NULL, height INTEGER NOT NULL, blockhash TEXT NOT NULL,
    previous_blockhash TEXT NOT NULL, unix_time INTEGER NOT NULL, transactions INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS transactions (
    id INTEGER PRIMARY KEY, signature_key INTEGER NOT NULL, signature TEXT NOT NULL, raw BLOB NOT NULL,
    meta TEXT NOT NULL, err TEXT, memo TEXT, keys TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS rewards (
    slot INTEGER PRIMARY KEY, pubkey TEXT NOT NULL, lamports TEXT NOT NULL, post_lamports TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS cloned (pubkey TEXT PRIMARY KEY, bytes INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS transactions_by_signature ON transactions (signature_key);
CREATE TABLE IF NOT EXISTS address_transactions (
    address TEXT NOT NULL, id INTEGER NOT NULL, PRIMARY KEY (address, id)
) WITHOUT ROWID;
"""
_PUT_ACCOUNTS = "INSERT OR REPLACE INTO accounts VALUES"
_PUT_TRANSACTIONS = "INSERT INTO transactions VALUES"
_PUT_ADDRESSES = "INSERT INTO address_transactions VALUES"
_PUT_CLONED = "INSERT OR IGNORE INTO cloned VALUES"
_DROP_ADDRESSES = "DELETE FROM address_transactions WHERE address IN"
_ROWS_PER_STATEMENT = 1_000  # At most eight values each; SQLite allows 32,766 values in a statement.
_POSITION_BITS = 24
_JUMP_SLOTS_MIN = 65  # More than a fault skips in a row: so many slots without a block are a jump to a later slot.


class FolderTaken(Exception):
    """Another devnode uses this folder, or the folder cannot be used; the text says which."""


class FolderLock:
    """Creates the folder where it is missing. Raises FolderTaken."""

    def __init__(self, data_dir: Path) -> None:
        try:
            data_dir.mkdir(parents=True, exist_ok=True)
            self._file = (data_dir / LOCK_NAME).open("a+")
        except OSError as error:
            raise FolderTaken(f"{data_dir}: cannot be written ({error.strerror}); give another --data-dir") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._file.seek(0)
            holder = self._file.read().strip() or "unknown"
            self._file.close()
            raise FolderTaken(
                f"{data_dir}: another devnode (process {holder}) uses this folder; stop it or give another --data-dir"
            ) from None
        self._file.seek(0)
        self._file.truncate()
        self._file.write(f"{os.getpid()}\n")
        self._file.flush()

    def release(self) -> None:
        self._file.close()


class JournalError(Exception):
    """The journal cannot be used; the text says what to do."""


@dataclass(slots=True)
class TakenOver:
    """Accounts taken over from another node, as they were there, and addresses that were closed meanwhile in a chain
    that clones. They outlive a lost fork, so they belong to no slot."""

    accounts: list[tuple[Pubkey, Account]] = field(default_factory=list)
    closed: list[Pubkey] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.accounts or self.closed)


@dataclass(frozen=True, slots=True)
class SealedSlot:
    """A sealed block, and the accounts it changed (None: closed)."""

    block: Block
    accounts: tuple[tuple[Pubkey, Account | None], ...]
    transaction_count: int  # Count of the whole chain, including this slot.
    taken_over: TakenOver | None = None  # Taken over since the slot that was written before.


@dataclass(frozen=True, slots=True)
class Restored:
    seed: int
    salt: bytes
    accounts: list[tuple[Pubkey, Account]]
    blockhashes: list[RecentBlockhash]
    slot_hashes: list[tuple[int, Hash]]  # Newest first.
    statuses: list[tuple[int, list[tuple[Signature, object]]]]  # By block, oldest first; the error is JSON.
    last_block: BlockHeader
    first_slot: int
    transaction_count: int
    # Addresses that are never asked for at another node: taken over, with their bytes, or closed here, with 0.
    cloned: dict[Pubkey, int] = field(default_factory=dict)

    def sealed(self) -> list[Sealed]:
        """The blocks of the blockhashes, oldest first, with the chain's number of transactions at the end of each."""
        counts, count = {}, self.transaction_count
        for slot, landed in reversed(self.statuses):
            counts[slot] = count
            count -= len(landed)
        return [Sealed(one.slot, one.height, counts[one.slot]) for one in self.blockhashes if one.height >= 0]


class Journal:
    """Writes the journal. The chain's thread opens it and a writer thread uses it, never both at once."""

    def __init__(self, data_dir: Path, retention_slots: int) -> None:
        self._retention_slots = retention_slots
        self._db = connect(data_dir / FILE_NAME)
        try:
            self._db.execute("PRAGMA journal_mode = WAL")
            # NORMAL survives a killed process. A power failure may lose the newest slots; the rest stays consistent.
            self._db.execute("PRAGMA synchronous = NORMAL")
            self._db.executescript(_SCHEMA)
            layout = self._value("layout")
            jumps = "SELECT slot, slot - parent_slot - 1 FROM blocks WHERE slot - parent_slot > ? ORDER BY slot"
            self._jumps: list[tuple[int, int]] = self._db.execute(jumps, (_JUMP_SLOTS_MIN,)).fetchall()
        except sqlite3.DatabaseError as error:
            raise JournalError(f"{data_dir / FILE_NAME}: {error}; start with --reset to begin a new chain") from error
        if layout is not None and layout != str(LAYOUT):
            raise JournalError(f"{data_dir / FILE_NAME} was written by another version; start with --reset")

    def close(self) -> None:
        self._db.close()

    def begin(self, seed: int, salt: bytes) -> None:
        """Record the seed and salt of a new chain; `flush` writes its slots."""
        rows = [("layout", str(LAYOUT)), ("seed", str(seed)), ("salt", salt.hex())]
        with self._db:
            self._db.executemany("INSERT INTO chain VALUES (?, ?)", rows)

    def flush(self, sealed: SealedSlot) -> None:
        """Write one slot in one commit, or raise and change nothing."""
        block = sealed.block
        written = [_account_row(pubkey, account) for pubkey, account in sealed.accounts if account is not None]
        closed = [(str(pubkey),) for pubkey, account in sealed.accounts if account is None]
        with self._db as db:
            db.execute(
                "INSERT INTO blocks VALUES (?, ?, ?, ?, ?, ?, ?)",
                (*msgspec.structs.astuple(block)[:6], len(block.transactions)),
            )
            if block.reward is not None:
                reward = block.reward
                values = (block.slot, reward.pubkey, str(reward.lamports), str(reward.post_lamports))
                db.execute("INSERT INTO rewards VALUES (?, ?, ?, ?)", values)
            self._many(_PUT_TRANSACTIONS, [_transaction_row(record) for record in block.transactions])
            self._many(
                _PUT_ADDRESSES,
                [(key, row_id(block.slot, record.position)) for record in block.transactions for key in record.keys],
            )
            if sealed.taken_over is not None:
                self._take_over(sealed.taken_over)  # Written before this slot's accounts, which are newer.
            self._many(_PUT_ACCOUNTS, written)
            db.executemany("DELETE FROM accounts WHERE pubkey = ?", closed)
            db.execute("INSERT OR REPLACE INTO chain VALUES ('transaction_count', ?)", (str(sealed.transaction_count),))
            self._drop_before(self._first_kept(block))

    def _take_over(self, taken: TakenOver) -> None:
        self._many(_PUT_ACCOUNTS, [_account_row(pubkey, account) for pubkey, account in taken.accounts])
        rows = [(str(pubkey), len(account.data)) for pubkey, account in taken.accounts]
        self._many(_PUT_CLONED, [*rows, *((str(pubkey), 0) for pubkey in taken.closed)])

    def prune(self, first_kept_slot: int) -> None:
        """Delete blocks and transactions before the slot, without waiting for the end of their retention."""
        with self._db:
            self._drop_before(first_kept_slot)

    def _first_kept(self, block: Block) -> int:
        """The oldest slot of the retention. Slots that the chain jumped over do not count: otherwise one long jump
        would delete the whole history, confirmed blocks included."""
        between = block.slot - block.parent_slot - 1
        if between >= _JUMP_SLOTS_MIN:
            self._jumps.append((block.slot, between))
        first = block.slot - self._retention_slots + 1
        for landed_on, jumped in reversed(self._jumps):
            if first >= landed_on:
                break
            first -= jumped
        self._jumps = [jump for jump in self._jumps if jump[0] > first]
        return first

    def _drop_before(self, slot: int) -> None:
        limit = row_id(slot, 0)
        rows = self._db.execute("SELECT keys FROM transactions WHERE id < ?", (limit,)).fetchall()
        # The primary key finds rows of an address below an id; a search for (address, id) pairs scans the whole table.
        addresses = sorted({key for (keys,) in rows for key in keys.split()})
        for start in range(0, len(addresses), _ROWS_PER_STATEMENT):
            part = addresses[start : start + _ROWS_PER_STATEMENT]
            marks = ",".join("?" * len(part))
            self._db.execute(f"{_DROP_ADDRESSES} ({marks}) AND id < ?", (*part, limit))
        self._db.execute("DELETE FROM transactions WHERE id < ?", (limit,))
        self._db.execute("DELETE FROM blocks WHERE slot < ?", (slot,))
        self._db.execute("DELETE FROM rewards WHERE slot < ?", (slot,))

    def _many(self, statement: str, rows: Sequence[tuple[object, ...]]) -> None:
        """Run the statement for all rows, with as many rows in each statement as SQLite allows."""
        for start in range(0, len(rows), _ROWS_PER_STATEMENT):
            part = rows[start : start + _ROWS_PER_STATEMENT]
            row = "(" + ",".join("?" * len(part[0])) + ")"
            self._db.execute(statement + ",".join([row] * len(part)), list(chain.from_iterable(part)))

    def restore(self) -> Restored | None:
        """Read the chain of an earlier run; None if there is none."""
        salt = self._value("salt")
        last = self._db.execute("SELECT * FROM blocks ORDER BY slot DESC LIMIT 1").fetchone()
        if salt is None or last is None:
            if salt is not None:  # Killed between `begin` and the first slot: begin again.
                with self._db:
                    self._db.execute("DELETE FROM chain")
            return None
        hashes = self._db.execute(
            "SELECT blockhash, slot, height FROM blocks ORDER BY slot DESC LIMIT ?", (_SLOT_HASHES,)
        ).fetchall()
        recent = [RecentBlockhash(Hash.from_string(text), slot, height) for text, slot, height in hashes]
        return Restored(
            seed=int(self._value("seed") or 0),
            salt=bytes.fromhex(salt),
            accounts=[_account(row) for row in self._db.execute("SELECT * FROM accounts")],
            blockhashes=recent[:BLOCKHASHES_KEPT][::-1],
            slot_hashes=[(entry.slot, entry.blockhash) for entry in recent],
            statuses=self._statuses(BLOCKHASHES_KEPT + 1),
            last_block=block_header(last),
            first_slot=self._db.execute("SELECT MIN(slot) FROM blocks").fetchone()[0],
            transaction_count=int(self._value("transaction_count") or 0),
            cloned={
                Pubkey.from_string(text): size for text, size in self._db.execute("SELECT pubkey, bytes FROM cloned")
            },
        )

    def _statuses(self, blocks: int) -> list[tuple[int, list[tuple[Signature, object]]]]:
        slots = [row[0] for row in self._db.execute("SELECT slot FROM blocks ORDER BY slot DESC LIMIT ?", (blocks,))]
        found: dict[int, list[tuple[Signature, object]]] = {slot: [] for slot in reversed(slots)}
        rows = self._db.execute("SELECT id, signature, err FROM transactions WHERE id >= ?", (row_id(min(slots), 0),))
        for identifier, signature, err in rows:
            outcome = None if err is None else orjson.loads(err)
            found[slot_and_position(identifier)[0]].append((Signature.from_string(signature), outcome))
        return list(found.items())

    def _value(self, name: str) -> str | None:
        row = self._db.execute("SELECT value FROM chain WHERE name = ?", (name,)).fetchone()
        return None if row is None else str(row[0])


def connect(path: Path, read_only: bool = False) -> sqlite3.Connection:
    """Open the database. check_same_thread is off: one thread opens the connection and another uses it, in turn."""
    try:
        connection = sqlite3.connect(
            path,
            check_same_thread=False,
            isolation_level="IMMEDIATE",
            # The writer's statements are large, and their length depends on the slot, so caching them gains nothing.
            cached_statements=128 if read_only else 0,
        )
        connection.execute("PRAGMA busy_timeout = 5000")
        if read_only:
            connection.execute("PRAGMA query_only = ON")
    except sqlite3.Error as error:
        raise JournalError(f"{path}: {error}") from error
    return connection


def row_id(slot: int, position: int) -> int:
    """Slot and position in one number, in the order of the chain, so that SQLite appends all rows at the end."""
    assert 0 <= position < 1 << _POSITION_BITS, position
    return slot << _POSITION_BITS | position


def signature_key(signature: str) -> int:
    """The index key of a signature: 32 bits, because signatures arrive in random order and every insert changes a page.
    Two signatures may share a key, so a query compares the signature as well."""
    return zlib.crc32(signature.encode())


def slot_and_position(identifier: int) -> tuple[int, int]:
    """Slot and position of a row id."""
    return identifier >> _POSITION_BITS, identifier & ((1 << _POSITION_BITS) - 1)


def block_header(row: tuple[int, int, int, str, str, int, int]) -> BlockHeader:
    """The header from a whole row of the table `blocks`; its last column is the number of transactions."""
    return BlockHeader(*row[:6])


def _account_row(pubkey: Pubkey, account: Account) -> tuple[str, str, bytes, str, int, str]:
    """Lamports and rent epoch are text, because SQLite's integers have 63 bits."""
    return (
        str(pubkey),
        str(account.lamports),
        account.data,
        str(account.owner),
        int(account.executable),
        str(account.rent_epoch),
    )


def _account(row: tuple[str, str, bytes, str, int, str]) -> tuple[Pubkey, Account]:
    pubkey, lamports, data, owner, executable, rent_epoch = row
    account = Account(int(lamports), data, Pubkey.from_string(owner), bool(executable), int(rent_epoch))
    return Pubkey.from_string(pubkey), account


def _transaction_row(record: TransactionRecord) -> tuple[object, ...]:
    err = record.meta.err
    return (
        row_id(record.slot, record.position),
        signature_key(record.signature),
        record.signature,
        record.raw,
        msgspec.json.encode(record.meta).decode(),
        None if err is None else orjson.dumps(err).decode(),
        memo_text(record),
        " ".join(record.keys),
    )
