"""Stores the watcher's state: its cursor, the inbox, and the outcome of each transfer.

Implements: the durable cursor behind "catches up after any outage, in order, without missing or repeating"; design,
"Owners, for every kind of actor" (deposit watcher). A port and its PostgreSQL store. Decides nothing; every method may
be repeated.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import astuple
from typing import Any, NamedTuple, Protocol

import asyncpg

from actors.deposits.usdc.chain import Seen
from actors.deposits.usdc.core import Finding, FindingStatus, Reason
from actors.ownership.api import FENCED_SQLSTATE, OwnershipUnavailable
from actors.ownership.store import PostgresOwnership
from actors.storage.connections import away_as, borrowed
from actors.storage.schema import check_schema, read_layout

_SECONDS = 8.0
_COLUMNS = (
    "signature, transfer_index, slot, block_time, status, reason, amount, source, authority, pubkey, credits, note"
)


KIND = "deposit-watcher"  # As ownership names it: one slice, for the whole work.
_SLICE = 0


class DepositStoreUnavailable(Exception):
    """The store did not answer: the change may or may not have been made."""


class WatcherReplaced(DepositStoreUnavailable):
    """Another watcher has begun since: this one changed nothing, and neither will any other of its writes."""


class Cursor(NamedTuple):
    """Every transaction up to read_slot is listed; signature and slot are those of the newest one."""

    signature: bytes  # Empty: no transaction yet.
    slot: int
    read_slot: int


class Gap(NamedTuple):
    after_slot: int
    before_slot: int


class Postponed(NamedTuple):
    """A transaction whose accounts cannot be credited now, and which is tried again later."""

    signature: bytes
    waits_for: frozenset[str]  # Authorities.
    try_at_ms: int


class Totals(NamedTuple):
    waiting: int  # In the inbox.
    counts: dict[FindingStatus, int]
    gaps: list[Gap]


class DepositStore(Protocol):
    """account: the deposit account; every row belongs to one. All methods raise DepositStoreUnavailable, and those that
    write raise WatcherReplaced once another watcher has begun."""

    async def prepare(self) -> None:
        """Become the only watcher: refuse later writes of an earlier one."""
        ...

    async def cursor(self, account: str) -> Cursor | None: ...

    async def add(self, account: str, page: Sequence[Seen], first_position: int) -> None:
        """Add a page, newest first, to the inbox. first_position: of its first row; each next one has one less."""
        ...

    async def move_cursor(self, account: str, cursor: Cursor, gap: Gap | None, now_ms: int) -> None:
        """Record that every transaction up to the cursor is in the inbox. A cursor never moves back."""
        ...

    async def oldest(self, account: str, limit: int, now_ms: int) -> list[Seen]:
        """Return the oldest of the inbox, in the order of the chain, without those that are postponed until later."""
        ...

    async def postpone(self, account: str, rows: Sequence[Postponed]) -> None:
        """Postpone transactions of the inbox: oldest() leaves them out until their time."""
        ...

    async def postponed_for(self, account: str, authorities: Sequence[str], now_ms: int) -> dict[str, int]:
        """Return the authorities that have postponed transactions, each with the latest time of one."""
        ...

    async def record(self, account: str, findings: Sequence[Finding], done: Sequence[bytes], now_ms: int) -> None:
        """Store findings and remove these signatures from the inbox, in one step.

        A finding that is credited or assigned already is not changed.
        """
        ...

    async def assign(self, account: str, finding: Finding, now_ms: int) -> None:
        """Store that the operator gave a listed transfer to an account: its status, pubkey, credits and note."""
        ...

    async def find(self, account: str, signature: bytes) -> list[Finding]:
        """Return the findings of one transaction, by index."""
        ...

    async def listing(self, account: str, status: FindingStatus | None, limit: int, offset: int) -> list[Finding]:
        """Return findings with this status, or all, newest first."""
        ...

    async def waiting(self, account: str) -> int:
        """Count the transactions in the inbox."""
        ...

    async def totals(self, account: str) -> Totals: ...


class PostgresDepositStore:
    """holder: names the process in the table of ownership."""

    def __init__(self, pool: asyncpg.Pool, holder: str) -> None:
        self._pool, self._holder = pool, holder
        self.epoch = 0  # Lower than every claimed epoch.

    async def prepare(self) -> None:
        with away_as(DepositStoreUnavailable):
            await check_schema(self._pool, [read_layout("actors.deposits")])
        try:
            self.epoch = await PostgresOwnership(self._pool).claim(KIND, [_SLICE], self._holder)
        except OwnershipUnavailable as error:
            raise DepositStoreUnavailable(str(error)) from error

    async def cursor(self, account: str) -> Cursor | None:
        async with self._connection() as connection:
            row = await connection.fetchrow(
                "SELECT signature, slot, read_slot FROM deposit_cursor WHERE account = $1", account
            )
        return None if row is None else Cursor(*row)

    async def add(self, account: str, page: Sequence[Seen], first_position: int) -> None:
        async with self._watching() as connection:
            await connection.execute(
                "INSERT INTO deposit_inbox (account, signature, slot, position, block_time, failed)"
                " SELECT $1, * FROM unnest($2::bytea[], $3::bigint[], $4::bigint[], $5::bigint[], $6::boolean[])"
                " ON CONFLICT DO NOTHING",
                account,
                [seen.signature for seen in page],
                [seen.slot for seen in page],
                [first_position - number for number in range(len(page))],
                [seen.block_time for seen in page],
                [seen.failed for seen in page],
            )

    async def move_cursor(self, account: str, cursor: Cursor, gap: Gap | None, now_ms: int) -> None:
        async with self._watching() as connection:
            await connection.execute(
                "INSERT INTO deposit_cursor AS c (account, signature, slot, read_slot) VALUES ($1, $2, $3, $4)"
                " ON CONFLICT (account) DO UPDATE"
                " SET signature = EXCLUDED.signature, slot = EXCLUDED.slot, read_slot = EXCLUDED.read_slot"
                " WHERE (EXCLUDED.slot, EXCLUDED.read_slot) >= (c.slot, c.read_slot)",
                account,
                *cursor,
            )
            if gap is not None:
                await connection.execute(
                    "INSERT INTO deposit_gaps (account, after_slot, before_slot, noticed_at_ms) VALUES ($1, $2, $3, $4)"
                    " ON CONFLICT DO NOTHING",
                    account,
                    *gap,
                    now_ms,
                )

    async def oldest(self, account: str, limit: int, now_ms: int) -> list[Seen]:
        async with self._connection() as connection:
            rows = await connection.fetch(
                "SELECT signature, slot, block_time, failed FROM deposit_inbox"
                " WHERE account = $1 AND try_at_ms <= $3 ORDER BY slot, position LIMIT $2",
                account,
                limit,
                now_ms,
            )
        return [Seen(*row) for row in rows]

    async def postpone(self, account: str, rows: Sequence[Postponed]) -> None:
        async with self._watching() as connection:
            await connection.executemany(
                "UPDATE deposit_inbox SET waits_for = $3, try_at_ms = $4 WHERE account = $1 AND signature = $2",
                [(account, row.signature, sorted(row.waits_for), row.try_at_ms) for row in rows],
            )

    async def postponed_for(self, account: str, authorities: Sequence[str], now_ms: int) -> dict[str, int]:
        async with self._connection() as connection:
            rows = await connection.fetch(
                "SELECT authority, max(try_at_ms) FROM deposit_inbox, unnest(waits_for) AS authority"
                " WHERE account = $1 AND try_at_ms > $3 AND try_at_ms > 0"
                " AND waits_for && $2::text[] AND authority = ANY ($2::text[]) GROUP BY authority",
                account,
                list(authorities),
                now_ms,
            )
        return {row[0]: row[1] for row in rows}

    async def record(self, account: str, findings: Sequence[Finding], done: Sequence[bytes], now_ms: int) -> None:
        async with self._watching() as connection:
            if findings:
                await connection.executemany(
                    f"INSERT INTO deposits AS d (account, {_COLUMNS}, recorded_at_ms)"  # noqa: S608 - column names.
                    " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)"
                    " ON CONFLICT (account, signature, transfer_index) DO UPDATE SET status = EXCLUDED.status,"
                    " reason = EXCLUDED.reason, slot = EXCLUDED.slot, block_time = EXCLUDED.block_time,"
                    " amount = EXCLUDED.amount, pubkey = EXCLUDED.pubkey, credits = EXCLUDED.credits"
                    f" WHERE d.status NOT IN ({FindingStatus.CREDITED:d}, {FindingStatus.ASSIGNED:d})",
                    [(account, *astuple(finding), now_ms) for finding in findings],
                )
            if done:
                await connection.execute(
                    "DELETE FROM deposit_inbox WHERE account = $1 AND signature = ANY ($2)", account, list(done)
                )

    async def assign(self, account: str, finding: Finding, now_ms: int) -> None:
        async with self._watching() as connection:
            await connection.execute(
                "UPDATE deposits SET status = $4, pubkey = $5, credits = $6, note = $7, recorded_at_ms = $8"
                " WHERE account = $1 AND signature = $2 AND transfer_index = $3 AND status = $9",
                account,
                finding.signature,
                finding.index,
                finding.status,
                finding.pubkey,
                finding.credits,
                finding.note,
                now_ms,
                FindingStatus.LISTED,
            )

    async def find(self, account: str, signature: bytes) -> list[Finding]:
        async with self._connection() as connection:
            rows = await connection.fetch(
                f"SELECT {_COLUMNS} FROM deposits WHERE account = $1 AND signature = $2"  # noqa: S608 - column names.
                " ORDER BY transfer_index",
                account,
                signature,
            )
        return [_finding(row) for row in rows]

    async def listing(self, account: str, status: FindingStatus | None, limit: int, offset: int) -> list[Finding]:
        only = "" if status is None else f" AND status = {status:d}"
        async with self._connection() as connection:
            rows = await connection.fetch(
                f"SELECT {_COLUMNS} FROM deposits WHERE account = $1{only}"  # noqa: S608 - column names.
                " ORDER BY slot DESC, signature, transfer_index LIMIT $2 OFFSET $3",
                account,
                limit,
                offset,
            )
        return [_finding(row) for row in rows]

    async def waiting(self, account: str) -> int:
        async with self._connection() as connection:
            return int(await connection.fetchval("SELECT count(*) FROM deposit_inbox WHERE account = $1", account))

    async def totals(self, account: str) -> Totals:
        async with self._connection() as connection:
            waiting = await connection.fetchval("SELECT count(*) FROM deposit_inbox WHERE account = $1", account)
            rows = await connection.fetch(
                "SELECT status, count(*) FROM deposits WHERE account = $1 GROUP BY status", account
            )
            gaps = await connection.fetch(
                "SELECT after_slot, before_slot FROM deposit_gaps WHERE account = $1 ORDER BY 1, 2", account
            )
        counts = dict.fromkeys(FindingStatus, 0) | {FindingStatus(status): count for status, count in rows}
        return Totals(waiting, counts, [Gap(*row) for row in gaps])

    def _connection(self) -> AbstractAsyncContextManager[Any]:
        return borrowed(self._pool, _SECONDS, DepositStoreUnavailable)

    @asynccontextmanager
    async def _watching(self) -> AsyncIterator[Any]:
        """Give a transaction of the watcher, which no claim of another one can overtake. Raises WatcherReplaced."""
        async with self._connection() as connection, connection.transaction():
            try:
                await connection.execute("SELECT ownership_check($1, $2, $3)", KIND, _SLICE, self.epoch)
            except asyncpg.PostgresError as error:
                if error.sqlstate != FENCED_SQLSTATE:
                    raise
                raise WatcherReplaced("another deposit watcher has begun") from error
            yield connection


def _finding(row: Any) -> Finding:
    signature, index, slot, block_time, status, reason, amount, *rest = row
    return Finding(signature, index, slot, block_time, FindingStatus(status), Reason(reason), int(amount), *rest)
