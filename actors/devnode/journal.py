"""The chain on disk: SQLite in WAL mode, one commit a slot.

Implements: durability (a killed node loses at most the slot it was building), and everything older than the slots
in memory: blocks, transactions, the address index, within a retention window.
Writing happens in one thread of its own, each slot as a handful of whole-slot statements: SQLite unpacks the rows
itself with json_each, outside the interpreter lock, instead of taking and giving the lock once per row.
Not here: what the rows mean (archive.py reads them, chain.py restores from them).
"""

import base64
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import msgspec
import orjson
from solders.account import Account
from solders.hash import Hash
from solders.pubkey import Pubkey
from solders.signature import Signature

from actors.devnode.blockhashes import BLOCKHASHES_KEPT, RecentBlockhash
from actors.devnode.memos import memo_text
from actors.devnode.records import Block, TransactionRecord

FILE_NAME = "chain.sqlite3"
LAYOUT = 1
_SLOT_HASHES = 512
_SCHEMA = """
CREATE TABLE IF NOT EXISTS chain (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS accounts (
    pubkey TEXT PRIMARY KEY, lamports TEXT NOT NULL, data TEXT NOT NULL, owner TEXT NOT NULL,
    executable INTEGER NOT NULL, rent_epoch TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS blocks (
    slot INTEGER PRIMARY KEY, parent_slot INTEGER NOT NULL, height INTEGER NOT NULL, blockhash TEXT NOT NULL,
    previous_blockhash TEXT NOT NULL, unix_time INTEGER NOT NULL, transactions INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS transactions (
    slot INTEGER NOT NULL, position INTEGER NOT NULL, signature TEXT NOT NULL, raw TEXT NOT NULL,
    meta TEXT NOT NULL, err TEXT, memo TEXT, keys TEXT NOT NULL, PRIMARY KEY (slot, position)
) WITHOUT ROWID;
CREATE UNIQUE INDEX IF NOT EXISTS transactions_by_signature ON transactions (signature);
CREATE TABLE IF NOT EXISTS address_transactions (
    address TEXT NOT NULL, slot INTEGER NOT NULL, position INTEGER NOT NULL, PRIMARY KEY (address, slot, position)
) WITHOUT ROWID;
"""
_PUT_ACCOUNTS = """
INSERT OR REPLACE INTO accounts SELECT value->>0, value->>1, value->>2, value->>3, value->>4, value->>5
FROM json_each(?)
"""
_DROP_ACCOUNTS = "DELETE FROM accounts WHERE pubkey IN (SELECT value FROM json_each(?))"
_PUT_TRANSACTIONS = """
INSERT INTO transactions SELECT ?, value->>0, value->>1, value->>2, value->>3, value->>4, value->>5, value->>6
FROM json_each(?)
"""
_PUT_ADDRESSES = """
INSERT INTO address_transactions
SELECT key.value, t.slot, t.position FROM transactions AS t, json_each(t.keys) AS key WHERE t.slot = ?
"""
_DROP_ADDRESSES = """
DELETE FROM address_transactions WHERE (address, slot, position) IN (
    SELECT key.value, t.slot, t.position FROM transactions AS t, json_each(t.keys) AS key WHERE t.slot < ?)
"""


class JournalError(Exception):
    """The journal cannot be used; the text says what to do."""


@dataclass(frozen=True, slots=True)
class SealedSlot:
    """All that one slot changed."""

    block: Block
    accounts: tuple[tuple[Pubkey, Account | None], ...]
    transaction_count: int  # Of the whole chain, this slot included.


@dataclass(frozen=True, slots=True)
class Restored:
    salt: bytes
    accounts: list[tuple[Pubkey, Account]]
    blockhashes: list[RecentBlockhash]
    slot_hashes: list[tuple[int, Hash]]  # Newest first.
    statuses: list[tuple[int, list[tuple[Signature, object]]]]  # By block, oldest first; the error is JSON.
    last_block: Block  # Without its transactions.
    first_slot: int
    transaction_count: int


class Journal:
    """Write side. Opened by the owner thread, written by one writer thread, never by two at a time."""

    def __init__(self, data_dir: Path, retention_slots: int) -> None:
        self._retention_slots = retention_slots
        self._db = connect(data_dir / FILE_NAME)
        try:
            self._db.execute("PRAGMA journal_mode = WAL")
            # NORMAL survives a killed process; only a power failure may lose the newest slots, never consistency.
            self._db.execute("PRAGMA synchronous = NORMAL")
            self._db.executescript(_SCHEMA)
            layout = self._value("layout")
        except sqlite3.DatabaseError as error:
            raise JournalError(f"{data_dir / FILE_NAME}: {error}; start with --reset to begin a new chain") from error
        if layout is not None and layout != str(LAYOUT):
            raise JournalError(f"{data_dir / FILE_NAME} was written by another version; start with --reset")

    def close(self) -> None:
        self._db.close()

    def begin(self, salt: bytes) -> None:
        """A new chain. Its first slots follow by `flush`."""
        with self._db:
            self._db.executemany(
                "INSERT INTO chain VALUES (?, ?)", [("layout", str(LAYOUT)), ("salt", salt.hex())]
            )  # fmt: skip

    def flush(self, sealed: SealedSlot) -> None:
        """Make one slot durable, or raise and leave everything as it was."""
        block = sealed.block
        written = [_account_row(pubkey, account) for pubkey, account in sealed.accounts if account is not None]
        closed = [str(pubkey) for pubkey, account in sealed.accounts if account is None]
        with self._db as db:
            db.execute(
                "INSERT INTO blocks VALUES (?, ?, ?, ?, ?, ?, ?)",
                (
                    block.slot,
                    block.parent_slot,
                    block.height,
                    block.blockhash,
                    block.previous_blockhash,
                    block.unix_time,
                    len(block.transactions),
                ),
            )
            if block.transactions:
                rows = [_transaction_row(record) for record in block.transactions]
                db.execute(_PUT_TRANSACTIONS, (block.slot, _json(rows)))
                db.execute(_PUT_ADDRESSES, (block.slot,))
            if written:
                db.execute(_PUT_ACCOUNTS, (_json(written),))
            if closed:
                db.execute(_DROP_ACCOUNTS, (_json(closed),))
            db.execute(
                "INSERT OR REPLACE INTO chain VALUES ('transaction_count', ?)", (str(sealed.transaction_count),)
            )
            self._drop_before(block.slot - self._retention_slots + 1)

    def prune(self, first_kept_slot: int) -> None:
        """Forget blocks and transactions before the slot, sooner than retention would."""
        with self._db:
            self._drop_before(first_kept_slot)

    def _drop_before(self, slot: int) -> None:
        self._db.execute(_DROP_ADDRESSES, (slot,))
        self._db.execute("DELETE FROM transactions WHERE slot < ?", (slot,))
        self._db.execute("DELETE FROM blocks WHERE slot < ?", (slot,))

    def restore(self) -> Restored | None:
        """What an earlier run left, or None for a new chain."""
        salt = self._value("salt")
        last = self._db.execute("SELECT * FROM blocks ORDER BY slot DESC LIMIT 1").fetchone()
        if salt is None or last is None:
            if salt is not None:  # Killed between the birth of the chain and its first slot: begin again.
                with self._db:
                    self._db.execute("DELETE FROM chain")
            return None
        hashes = self._db.execute(
            "SELECT blockhash, slot, height FROM blocks ORDER BY slot DESC LIMIT ?", (_SLOT_HASHES,)
        ).fetchall()
        recent = [RecentBlockhash(Hash.from_string(text), slot, height) for text, slot, height in hashes]
        return Restored(
            salt=bytes.fromhex(salt),
            accounts=[_account(row) for row in self._db.execute("SELECT * FROM accounts")],
            blockhashes=recent[:BLOCKHASHES_KEPT][::-1],
            slot_hashes=[(entry.slot, entry.blockhash) for entry in recent],
            statuses=self._statuses(BLOCKHASHES_KEPT + 1),
            last_block=_block(last),
            first_slot=self._db.execute("SELECT MIN(slot) FROM blocks").fetchone()[0],
            transaction_count=int(self._value("transaction_count") or 0),
        )

    def _statuses(self, blocks: int) -> list[tuple[int, list[tuple[Signature, object]]]]:
        slots = [row[0] for row in self._db.execute("SELECT slot FROM blocks ORDER BY slot DESC LIMIT ?", (blocks,))]
        found: dict[int, list[tuple[Signature, object]]] = {slot: [] for slot in reversed(slots)}
        rows = self._db.execute("SELECT slot, signature, err FROM transactions WHERE slot >= ?", (min(slots),))
        for slot, signature, err in rows:
            found[slot].append((Signature.from_string(signature), None if err is None else orjson.loads(err)))
        return list(found.items())

    def _value(self, name: str) -> str | None:
        row = self._db.execute("SELECT value FROM chain WHERE name = ?", (name,)).fetchone()
        return None if row is None else str(row[0])


def connect(path: Path, read_only: bool = False) -> sqlite3.Connection:
    """check_same_thread is off because the owner opens what the writer thread uses; never both at once."""
    try:
        connection = sqlite3.connect(path, check_same_thread=False, isolation_level="IMMEDIATE")
        connection.execute("PRAGMA busy_timeout = 5000")
        if read_only:
            connection.execute("PRAGMA query_only = ON")
    except sqlite3.Error as error:
        raise JournalError(f"{path}: {error}") from error
    return connection


def _json(rows: Iterable[object]) -> str:
    return orjson.dumps(rows).decode()


def _block(row: tuple[int, int, int, str, str, int, int]) -> Block:
    slot, parent_slot, height, blockhash, previous_blockhash, unix_time, _ = row
    return Block(slot, parent_slot, height, blockhash, previous_blockhash, unix_time, transactions=())


def _account_row(pubkey: Pubkey, account: Account) -> tuple[str, str, str, str, int, str]:
    """Lamports and rent epoch as text: SQLite's integers end at 63 bits."""
    return (
        str(pubkey),
        str(account.lamports),
        base64.b64encode(account.data).decode(),
        str(account.owner),
        int(account.executable),
        str(account.rent_epoch),
    )


def _account(row: tuple[str, str, str, str, int, str]) -> tuple[Pubkey, Account]:
    pubkey, lamports, data, owner, executable, rent_epoch = row
    account = Account(
        int(lamports), base64.b64decode(data), Pubkey.from_string(owner), bool(executable), int(rent_epoch)
    )
    return Pubkey.from_string(pubkey), account


def _transaction_row(record: TransactionRecord) -> tuple[object, ...]:
    err = record.meta.err
    return (
        record.position,
        record.signature,
        base64.b64encode(record.raw).decode(),
        msgspec.json.encode(record.meta).decode(),
        None if err is None else orjson.dumps(err).decode(),
        memo_text(record),
        orjson.dumps(record.keys).decode(),
    )
