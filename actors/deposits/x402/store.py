"""The durable state of x402 payments: their claims and their states.

Implements: decisions, "Two ways to pay by x402"; threats 24 (the same transaction twenty times before it confirms) and
52 (one payment at a time for each wallet and token account).
A port and its PostgreSQL store. Decides nothing. All replicas use one database, so a claim holds
for all of them and survives each of them.
"""

from dataclasses import astuple
from typing import Any, Protocol

import asyncpg

from actors.deposits.x402.sponsor_limits import Standing
from actors.deposits.x402.states import PaymentKind, PaymentState, Record
from actors.storage.connections import away_as

_COLUMNS = (
    "message_hash, kind, state, payer, amount_base_units, transaction, signature, last_valid_height, created_at_ms, "
    "slot, reason, fee_lost, source, newcomer, brought_by"
)
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
        """Return the counts that decide whether this payer is sponsored.

        minute_ms, hour_ms: the begin of the last minute and hour. address: of the client; empty: not counted.
        """
        ...

    async def forget(self, before_ms: int, unsigned_before_ms: int) -> int:
        """Remove ended payments that were claimed before before_ms; of those never signed, the ones that were claimed
        before unsigned_before_ms. Returns their number."""
        ...


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
                *astuple(record),
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


def _record(row: Any) -> Record:
    kind, state, rest = PaymentKind(row["kind"]), PaymentState(row["state"]), tuple(row)
    return Record(rest[0], kind, state, *rest[3:])
