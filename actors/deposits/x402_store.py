"""The durable state of x402 payments: their claims and their states.

Implements: decisions 3.6; hostile inputs 24 (the same transaction twenty times before it confirms) and 52 (one payment
at a time for each wallet and token account).
A port and its two stores, which pass the same tests. Decides nothing. All replicas use one database, so a claim holds
for all of them and survives each of them.
"""

from dataclasses import replace
from typing import Any, Protocol

import asyncpg

from actors.deposits.x402_core import PaymentKind, PaymentState, Record
from actors.deposits.x402_sponsoring import Standing
from actors.storage.connections import away_as

_COLUMNS = (
    "message_hash, kind, state, payer, amount_base_units, transaction, signature, last_valid_height, created_at_ms, "
    "slot, reason, fee_lost, source, newcomer, brought_by"
)
_LANDED = (PaymentState.CREDITED, PaymentState.FINAL)
# The planner uses the small indexes of schema.sql: no part of this reads all payments of a wallet.
_STANDING = """
WITH lost AS (
    SELECT count(*) AS n FROM x402_payments WHERE fee_lost AND kind <> 2 AND (payer = $1 OR source = $2)
), newcomers AS (
    SELECT count(*) FILTER (WHERE fee_lost) AS failed, count(*) FILTER (WHERE brought_by = $3) AS at_address
    FROM x402_payments WHERE newcomer AND (fee_lost OR state < 2) AND created_at_ms >= $5
)
SELECT
    (SELECT count(*) FROM x402_payments WHERE payer = $1 AND kind <> 2 AND created_at_ms >= $4) AS attempts,
    lost.n AS lost,
    (SELECT count(*) FROM (SELECT FROM x402_payments WHERE payer = $1 AND state IN (2, 10) LIMIT lost.n + 1) few)
        AS landed,
    newcomers.failed AS newcomers,
    CASE WHEN $3 = '' THEN 0 ELSE newcomers.at_address END AS at_address
FROM lost, newcomers
"""


class PaymentsUnavailable(Exception):
    """The store did not answer: the change may or may not have been made."""


class PaymentStore(Protocol):
    async def find(self, message_hash: bytes) -> Record | None: ...

    async def claim(self, record: Record, look_at_ms: int) -> bool:
        """Store a new payment. False: this message is stored already and is not changed, or another sponsored payment
        of this payer or from this token account has not landed yet."""
        ...

    async def move(self, record: Record, look_at_ms: int) -> bool:
        """Store state, transaction, signature, slot, reason and fee_lost of this record. False: the stored payment is
        in a later state or has ended, and is not changed."""
        ...

    async def due(self, now_ms: int, look_at_ms: int, limit: int) -> list[Record]:
        """Open payments that are due, the longest waiting first. No other caller gets them until look_at_ms."""
        ...

    async def standing(self, payer: bytes, source: bytes, address: str, minute_ms: int, hour_ms: int) -> Standing:
        """The counts that decide whether this payer is sponsored. minute_ms, hour_ms: when the last minute and the last
        hour began. address: of the client; empty: not counted by address."""
        ...

    async def forget(self, before_ms: int, unsigned_before_ms: int) -> int:
        """Remove ended payments that were claimed before before_ms; of those never signed, the ones that were claimed
        before unsigned_before_ms. Returns their number."""
        ...


class MemoryPaymentStore:
    """In memory, for tests."""

    def __init__(self) -> None:
        self.records: dict[bytes, Record] = {}
        self._look_at: dict[bytes, int] = {}

    async def find(self, message_hash: bytes) -> Record | None:
        return self.records.get(message_hash)

    async def claim(self, record: Record, look_at_ms: int) -> bool:
        if record.message_hash in self.records or any(_excludes(other, record) for other in self.records.values()):
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

    async def standing(self, payer: bytes, source: bytes, address: str, minute_ms: int, hour_ms: int) -> Standing:
        sponsored = [record for record in self.records.values() if record.kind is not PaymentKind.SELF_PAID]
        lost = sum(one.fee_lost and (one.payer == payer or one.source == source) for one in sponsored)
        landed = sum(one.payer == payer and one.state in _LANDED for one in self.records.values())
        recent = [one for one in sponsored if one.newcomer and one.created_at_ms >= hour_ms]
        return Standing(
            sum(one.payer == payer and one.created_at_ms >= minute_ms for one in sponsored),
            lost,
            min(landed, lost + 1),
            sum(one.fee_lost for one in recent),
            sum(one.brought_by == address != "" and (one.fee_lost or _is_under_way(one)) for one in recent),
        )

    async def forget(self, before_ms: int, unsigned_before_ms: int) -> int:
        old = [
            key
            for key, one in self.records.items()
            if not one.state.open
            and one.created_at_ms < (unsigned_before_ms if one.state is PaymentState.ABANDONED else before_ms)
        ]
        for key in old:
            del self.records[key], self._look_at[key]
        return len(old)


class PostgresPaymentStore:
    """In PostgreSQL. Every failure of the database raises PaymentsUnavailable."""

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
                "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16) "
                "ON CONFLICT DO NOTHING RETURNING true",
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
                record.source,
                record.newcomer,
                record.brought_by,
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
                # A state or kind that this service never writes would fail the whole round.
                "SELECT message_hash FROM x402_payments WHERE state < 10 AND look_at_ms <= $1 "
                "AND state BETWEEN 0 AND 2 AND kind BETWEEN 0 AND 2 "
                f"ORDER BY look_at_ms LIMIT $3 FOR UPDATE SKIP LOCKED) RETURNING {_COLUMNS}",
                now_ms,
                look_at_ms,
                limit,
            )
        return [_record(row) for row in rows]

    async def standing(self, payer: bytes, source: bytes, address: str, minute_ms: int, hour_ms: int) -> Standing:
        with away_as(PaymentsUnavailable):
            row = await self._pool.fetchrow(_STANDING, payer, source, address, minute_ms, hour_ms)
        assert row is not None, "counts are one row"
        return Standing(**row)

    async def forget(self, before_ms: int, unsigned_before_ms: int) -> int:
        with away_as(PaymentsUnavailable):
            done = await self._pool.execute(
                "DELETE FROM x402_payments WHERE state >= 10 AND "
                "created_at_ms < CASE WHEN state = $3 THEN $2::bigint ELSE $1::bigint END",
                before_ms,
                unsigned_before_ms,
                PaymentState.ABANDONED.value,
            )
        return int(done.rpartition(" ")[2])


def _is_under_way(record: Record) -> bool:
    return record.state < PaymentState.CREDITED


def _excludes(other: Record, record: Record) -> bool:
    """Whether this record may not be claimed while the other one is under way. A record without a source excludes no
    other."""
    if (
        PaymentKind.SELF_PAID in (other.kind, record.kind)
        or not _is_under_way(other)
        or not (other.source and record.source)
    ):
        return False
    return other.payer == record.payer or other.source == record.source


def _record(row: Any) -> Record:
    kind, state, rest = PaymentKind(row["kind"]), PaymentState(row["state"]), tuple(row)
    return Record(rest[0], kind, state, *rest[3:])
