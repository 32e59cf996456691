"""What must survive of x402 payments: who claimed which, and how far it has come.

Implements: decisions 3.6; hostile input 24 (the same transaction twenty times before it confirms).
A port and its two stores, which pass one suite. Decides nothing. Every replica has its own client of one database, so
a claim counts for all of them, and outlives them.
"""

from dataclasses import replace
from typing import Any, Protocol

import asyncpg

from actors.deposits.x402_core import Kind, Record, State
from actors.storage import away_as

_COLUMNS = (
    "message_hash, kind, state, payer, amount_base_units, transaction, signature, last_valid_height, created_at_ms, "
    "slot, reason, fee_lost"
)


class PaymentsUnavailable(Exception):
    """The store did not do what was asked, or it is not known whether it did."""


class PaymentStore(Protocol):
    async def find(self, message_hash: bytes) -> Record | None: ...

    async def claim(self, record: Record, look_at_ms: int) -> bool:
        """Keep a new payment. False: there is one with this message already, and it stays as it is."""
        ...

    async def move(self, record: Record, look_at_ms: int) -> bool:
        """State, transaction, signature, slot, reason and fee_lost are from now on those of this record. False:
        somebody has moved it further already, and it stays as it is. A state never gives way to a lower one, nor an end
        to any."""
        ...

    async def due(self, now_ms: int, look_at_ms: int, limit: int) -> list[Record]:
        """The open payments whose time has come, those that wait longest; until look_at_ms nobody else gets them."""
        ...

    async def attempts(self, payer: bytes, since_ms: int) -> int:
        """How many payments of this payer were claimed since then."""
        ...

    async def fees_lost(self, since_ms: int) -> int:
        """How many of the payments claimed since then cost the sponsor a fee for nothing, whoever paid."""
        ...

    async def forget(self, before_ms: int) -> int:
        """Remove ended payments that were claimed before then; how many there were."""
        ...


class MemoryPaymentStore:
    """For tests and single processes."""

    def __init__(self) -> None:
        self.records: dict[bytes, Record] = {}
        self._look_at: dict[bytes, int] = {}

    async def find(self, message_hash: bytes) -> Record | None:
        return self.records.get(message_hash)

    async def claim(self, record: Record, look_at_ms: int) -> bool:
        if record.message_hash in self.records:
            return False
        self.records[record.message_hash] = record
        self._look_at[record.message_hash] = look_at_ms
        return True

    async def move(self, record: Record, look_at_ms: int) -> bool:
        kept = self.records[record.message_hash]
        if not kept.state.open or record.state < kept.state:
            return False
        self.records[record.message_hash] = replace(
            kept,
            state=record.state,
            transaction=record.transaction,
            signature=record.signature,
            slot=record.slot,
            reason=record.reason,
            fee_lost=record.fee_lost,
        )
        self._look_at[record.message_hash] = look_at_ms
        return True

    async def due(self, now_ms: int, look_at_ms: int, limit: int) -> list[Record]:
        waiting = sorted(
            (at, key) for key, at in self._look_at.items() if at <= now_ms and self.records[key].state.open
        )
        for _, key in waiting[:limit]:
            self._look_at[key] = look_at_ms
        return [self.records[key] for _, key in waiting[:limit]]

    async def attempts(self, payer: bytes, since_ms: int) -> int:
        return sum(record.payer == payer and record.created_at_ms >= since_ms for record in self.records.values())

    async def fees_lost(self, since_ms: int) -> int:
        return sum(
            record.fee_lost and record.kind is not Kind.SELF_PAID and record.created_at_ms >= since_ms
            for record in self.records.values()
        )

    async def forget(self, before_ms: int) -> int:
        old = [
            key for key, record in self.records.items() if record.created_at_ms < before_ms and not record.state.open
        ]
        for key in old:
            del self.records[key], self._look_at[key]
        return len(old)


class PostgresPaymentStore:
    """Every failure of the database is PaymentsUnavailable."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def find(self, message_hash: bytes) -> Record | None:
        with away_as(PaymentsUnavailable):
            row = await self._pool.fetchrow(
                f"SELECT {_COLUMNS} FROM x402_payments WHERE message_hash = $1",  # noqa: S608 - our own names.
                message_hash,
            )
        return None if row is None else _record(row)

    async def claim(self, record: Record, look_at_ms: int) -> bool:
        with away_as(PaymentsUnavailable):
            claimed = await self._pool.fetchval(
                f"INSERT INTO x402_payments ({_COLUMNS}, look_at_ms) "  # noqa: S608 - our own names.
                "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13) "
                "ON CONFLICT (message_hash) DO NOTHING RETURNING true",
                record.message_hash,
                record.kind.value,
                record.state.value,
                record.payer,
                record.amount_base_units,
                record.transaction,
                record.signature,
                record.last_valid_height,
                record.created_at_ms,
                record.slot,
                record.reason,
                record.fee_lost,
                look_at_ms,
            )
        return claimed is True

    async def move(self, record: Record, look_at_ms: int) -> bool:
        with away_as(PaymentsUnavailable):
            done = await self._pool.execute(
                "UPDATE x402_payments SET state = $2, transaction = $3, signature = $4, slot = $5, reason = $6, "
                "look_at_ms = $7, fee_lost = $8 WHERE message_hash = $1 AND state < 10 AND state <= $2",
                record.message_hash,
                record.state.value,
                record.transaction,
                record.signature,
                record.slot,
                record.reason,
                look_at_ms,
                record.fee_lost,
            )
        return bool(done == "UPDATE 1")

    async def due(self, now_ms: int, look_at_ms: int, limit: int) -> list[Record]:
        with away_as(PaymentsUnavailable):
            rows = await self._pool.fetch(
                "UPDATE x402_payments SET look_at_ms = $2 WHERE message_hash IN ("  # noqa: S608 - our own names.
                "SELECT message_hash FROM x402_payments WHERE state < 10 AND look_at_ms <= $1 "
                f"ORDER BY look_at_ms LIMIT $3 FOR UPDATE SKIP LOCKED) RETURNING {_COLUMNS}",
                now_ms,
                look_at_ms,
                limit,
            )
        return [_record(row) for row in rows]

    async def attempts(self, payer: bytes, since_ms: int) -> int:
        with away_as(PaymentsUnavailable):
            count = await self._pool.fetchval(
                "SELECT count(*) FROM x402_payments WHERE payer = $1 AND created_at_ms >= $2", payer, since_ms
            )
        return int(count)

    async def fees_lost(self, since_ms: int) -> int:
        with away_as(PaymentsUnavailable):
            count = await self._pool.fetchval(
                "SELECT count(*) FROM x402_payments WHERE fee_lost AND kind <> $1 AND created_at_ms >= $2",
                Kind.SELF_PAID.value,
                since_ms,
            )
        return int(count)

    async def forget(self, before_ms: int) -> int:
        with away_as(PaymentsUnavailable):
            done = await self._pool.execute(
                "DELETE FROM x402_payments WHERE state >= 10 AND created_at_ms < $1", before_ms
            )
        return int(done.rpartition(" ")[2])


def _record(row: Any) -> Record:
    kind, state, rest = Kind(row["kind"]), State(row["state"]), tuple(row)
    return Record(rest[0], kind, state, *rest[3:])
