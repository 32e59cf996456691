"""Reads blocks and transactions from the journal.

Implements: all queries at commitment confirmed or higher. A slot is confirmed only once it is in the journal, so the
journal is complete for these levels and memory holds no second copy.
Reads only; used by the thread that owns the chain; its connection sees every committed slot.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import orjson

from devnode.journal.journal import FILE_NAME, block_header, connect, row_id, signature_key, slot_and_position
from devnode.records.records import BlockHeader, Reward, TransactionMeta, TransactionRecord


@dataclass(frozen=True, slots=True)
class AddressEntry:
    signature: str
    slot: int
    position: int
    err: Any
    memo: str | None
    unix_time: int


_meta_decoder = msgspec.json.Decoder(TransactionMeta)


class Archive:
    def __init__(self, data_dir: Path) -> None:
        self._db = connect(data_dir / FILE_NAME, read_only=True)

    def close(self) -> None:
        self._db.close()

    def transaction(self, signature: str) -> TransactionRecord | None:
        row = self._one("id, signature, raw, meta, keys", signature)
        return None if row is None else _transaction(row)

    def status(self, signature: str) -> tuple[int, Any] | None:
        """Slot and error of a transaction."""
        row = self._one("id, err", signature)
        return None if row is None else (slot_and_position(row[0])[0], _error(row[1]))

    def position(self, signature: str) -> tuple[int, int] | None:
        """Slot of a transaction, and its position in the block."""
        row = self._one("id", signature)
        return None if row is None else slot_and_position(row[0])

    def block(self, slot: int) -> BlockHeader | None:
        row = self._db.execute("SELECT * FROM blocks WHERE slot = ?", (slot,)).fetchone()
        return None if row is None else block_header(row)

    def reward(self, slot: int) -> Reward | None:
        """What the leader of the slot's block got; None without a block or without fees."""
        row = self._db.execute("SELECT pubkey, lamports, post_lamports FROM rewards WHERE slot = ?", (slot,)).fetchone()
        return None if row is None else Reward(row[0], int(row[1]), int(row[2]))

    def block_transactions(self, slot: int) -> list[TransactionRecord]:
        rows = self._db.execute(
            "SELECT id, signature, raw, meta, keys FROM transactions WHERE id >= ? AND id < ? ORDER BY id",
            (row_id(slot, 0), row_id(slot + 1, 0)),
        )
        return [_transaction(row) for row in rows]

    def block_signatures(self, slot: int) -> list[str]:
        rows = self._db.execute(
            "SELECT signature FROM transactions WHERE id >= ? AND id < ? ORDER BY id",
            (row_id(slot, 0), row_id(slot + 1, 0)),
        )
        return [row[0] for row in rows]

    def first_slot(self) -> int | None:
        row = self._db.execute("SELECT MIN(slot) FROM blocks").fetchone()
        return None if row[0] is None else int(row[0])

    def slots(self, first: int, last: int, limit: int) -> list[int]:
        """Slots of existing blocks in the closed range, oldest first."""
        rows = self._db.execute(
            "SELECT slot FROM blocks WHERE slot BETWEEN ? AND ? ORDER BY slot LIMIT ?", (first, last, limit)
        )
        return [row[0] for row in rows]

    def address_entries(
        self, address: str, newest: int, before: tuple[int, int] | None, until: tuple[int, int] | None, limit: int
    ) -> list[AddressEntry]:
        """Transactions of an address, newest first, up to slot `newest`. before and until are (slot, position), both
        exclusive."""
        upper = row_id(newest + 1, 0)
        if before is not None:
            upper = min(upper, row_id(*before))
        lower = -1 if until is None else row_id(*until)
        rows = self._db.execute(
            """
            SELECT t.id, t.signature, t.err, t.memo
            FROM address_transactions AS a JOIN transactions AS t ON t.id = a.id
            WHERE a.address = ? AND a.id < ? AND a.id > ? ORDER BY a.id DESC LIMIT ?
            """,
            (address, upper, lower, limit),
        ).fetchall()
        places = [slot_and_position(row[0]) for row in rows]
        times = self._unix_times({slot for slot, _ in places})
        return [
            AddressEntry(
                signature=signature, slot=slot, position=position, err=_error(err), memo=memo, unix_time=times[slot]
            )
            for (slot, position), (_, signature, err, memo) in zip(places, rows, strict=True)
        ]

    def _one(self, columns: str, signature: str) -> Any:
        """One row of a transaction. columns: from constants of this file alone, because they become SQL."""
        statement = f"SELECT {columns} FROM transactions WHERE signature_key = ? AND signature = ?"  # noqa: S608
        return self._db.execute(statement, (signature_key(signature), signature)).fetchone()

    def _unix_times(self, slots: set[int]) -> dict[int, int]:
        marks = ",".join("?" * len(slots))
        rows = self._db.execute(f"SELECT slot, unix_time FROM blocks WHERE slot IN ({marks})", tuple(slots))  # noqa: S608
        return dict(rows.fetchall())


def _error(text: str | None) -> Any:
    return None if text is None else orjson.loads(text)


def _transaction(row: tuple[int, str, bytes, str, str]) -> TransactionRecord:
    identifier, signature, raw, meta, keys = row
    slot, position = slot_and_position(identifier)
    return TransactionRecord(slot, position, signature, raw, tuple(keys.split()), _meta_decoder.decode(meta))
