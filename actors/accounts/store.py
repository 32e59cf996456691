"""Stores accounts: writes groups of events, loads accounts. The port, and PostgreSQL behind it.

Implements: money rules 2, 5, 6 and 12; design, "What must survive what". Decides nothing.
One group is one call of accounts_write_group() or, of one entry alone, of accounts_write_entry() (functions.sql): one
round trip and one transaction, which waits for the disk (synchronous_commit) and carries the owner's epoch.
"""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, NamedTuple, Protocol

import asyncpg
import msgspec

from actors.accounts.account import Mark, MarkKind
from actors.accounts.bills import BillStore, PostgresBillStore
from actors.accounts.credits import Batch
from actors.accounts.directory import DirectoryStore, PostgresDirectory
from actors.accounts.holders_store import HoldersStore, PostgresHoldersStore
from actors.accounts.key_imports import KeyImports, PostgresKeyImports
from actors.accounts.keys_store import FIND_KEY, FIND_ROOT, read_keys
from actors.accounts.ledger import Entry, EntryType
from actors.accounts.ledger_time import months
from actors.accounts.listings import NO_FILTER, LedgerFilter
from actors.accounts.months.cuts import RECENT_ENTRIES, PostgresCutsStore
from actors.accounts.outbox import Outbox, PostgresOutbox
from actors.accounts.referrals import Referral
from actors.accounts.seals_store import PostgresSealsStore, SealsStore
from actors.accounts.store_parts import StoreParts
from actors.accounts.stored import Credited, Fenced, Past, Stored, StoreUnavailable, stored_account, stored_batch
from actors.accounts.undelivered_store import PostgresUndeliveredStore, UndeliveredStore
from actors.accounts.usage import PostgresUsageStore, UsageStore
from actors.accounts.writes import Write, entry_arguments, group_arguments
from actors.storage.connections import AWAY_AT_WORK, away_as, borrowed
from actors.storage.schema import check_schema, read_layout
from actors.units import VirtualShard

logger = logging.getLogger(__name__)

# A group takes milliseconds, so a slower server counts as lost. Much shorter than operations stay in memory.
WRITE_SECONDS = 8.0
EXPIRED_LOOKED_BACK_SECONDS = 30 * 86_400
_FENCED, _DIVERGED, _DOUBLED = "LG001", "LG002", "23505"
# For the writing connection. Its statements always find a few rows by primary key among very many. The planner would
# otherwise work that out for every group again, or scan whole tables while statistics are young.
_WRITER_SETTINGS = (
    "SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; SET enable_hashjoin = off;"
    "SET enable_mergejoin = off; SET synchronous_commit = on; SET jit = off;"
    # A write reads the owner of its shards after waiting for a takeover, whatever the database's default is.
    "SET default_transaction_isolation = 'read committed'"
)
_NOW_MS = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
_WRITE_GROUP = "SELECT accounts_write_group($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)"
_WRITE_ENTRY = f"SELECT accounts_write_entry({', '.join(f'${number}' for number in range(1, 23))})"
_ENTRY_COLUMNS = "seq, at_ms, type, amount, balance, operation_id, method, outcome, description, parcels"
# Looked up only for the rows of a page: the number of an account's refunds has no bound.
_CONSUMED = (
    "CASE WHEN EXISTS (SELECT FROM account_operations o WHERE o.pubkey = page.pubkey AND o.operation = operation_id"
    f" AND o.kind = {MarkKind.REFUND:d}) THEN 0 ELSE amount END"
)
_ACCOUNT = (
    "SELECT a.*, h.credits AS hourly_credits, h.lifted_until AS hourly_lifted_until, t.hour,"
    " t.consumed AS hour_consumed, t.usual AS hour_usual, p.name AS price_list FROM accounts AS a"
    " LEFT JOIN account_hourly_limits AS h ON h.pubkey = a.pubkey LEFT JOIN account_hours AS t ON t.pubkey = a.pubkey"
    " LEFT JOIN account_price_lists AS p ON p.pubkey = a.pubkey WHERE a.pubkey = $1"
)
_BATCH_COLUMNS = "id, source, credits, remaining, created_at, expires_at"
# The mark of a debit has the time of its entry, so that one partition of the ledger is read for each. The limit keeps
# the server from joining with the whole ledger.
_FIND_DEBITS = (
    f"SELECT asked.pubkey, asked.operation, l.* FROM unnest($1::bytea[], $2::bytea[]) AS asked (pubkey, operation)"  # noqa: S608
    f" JOIN account_debits d ON d.operation = asked.operation LEFT JOIN LATERAL (SELECT {_ENTRY_COLUMNS} FROM ledger"
    f" WHERE pubkey = asked.pubkey AND at_ms = d.at_ms AND operation_id = d.operation AND type = {EntryType.DEBIT:d}"
    " LIMIT 1) AS l ON true"
)
_FIND_VOIDS = (
    "SELECT asked.pubkey, asked.operation FROM unnest($1::bytea[], $2::bytea[]) AS asked (pubkey, operation)"  # noqa: S608
    " JOIN account_operations o ON o.pubkey = asked.pubkey AND o.operation = asked.operation"
    f" AND o.kind IN ({MarkKind.VOID:d}, {MarkKind.REFUND:d})"
)


class AccountStore(StoreParts, Protocol):
    """Stores accounts. All methods raise StoreUnavailable when the store cannot be used."""

    async def prepare(self, now_ms: int) -> None:
        """Create the monthly partitions near this time; idempotent."""
        ...

    async def has_owner(self, shards: Sequence[VirtualShard]) -> bool:
        """Return whether any owner ever took one of these shards over."""
        ...

    async def take_over(self, owner: str, shards: Sequence[VirtualShard], renew: bool) -> int:
        """Become the owner; returns the new epoch, the same for all shards. owner: a name that no other process ever
        had. renew: take over only if this owner still has all shards; raises Fenced otherwise. Taking over twice is
        harmless. When this returns, every write of an earlier epoch has either been made or never will be."""
        ...

    async def write(self, epoch: int, group: Write) -> int:
        """Write the whole group, or nothing of it. Returns the store's time in Unix milliseconds.

        Raises Fenced; after any other error, the outcome is known only after the next take_over. A group that debits an
        operation a second time is refused, whenever the first debit was made.
        """
        ...

    async def check_owner(self, epoch: int, shards: Sequence[VirtualShard]) -> int:
        """Return the store's time in Unix milliseconds. Raises Fenced when these shards no longer have this epoch."""
        ...

    async def load(self, pubkey: bytes, since_ms: int) -> Stored | None:
        """Load an account with its entries and voids since then; None: the account does not exist."""
        ...

    async def find_key(self, key_hash: bytes) -> bytes | None:
        """Return the public key of the account with a key of this hash: its API key or a named one, valid or not."""
        ...

    async def find_root(self, public: bytes) -> bytes | None:
        """Return the public key of the account whose named key has this public key."""
        ...

    async def find_mark(self, pubkey: bytes, kinds: Sequence[int], operation: bytes) -> Mark | None: ...

    async def find_ended(self, operations: Sequence[tuple[bytes, bytes]]) -> dict[tuple[bytes, bytes], Past]:
        """Return how these operations ended, with their accounts, without those that never ended.

        It searches the whole ledger, so that no clock affects the result."""
        ...

    async def find_batches(self, pubkey: bytes, numbers: Sequence[int]) -> list[Batch]: ...  # Spent ones too.

    async def find_deposits(self, operations: Sequence[bytes]) -> dict[bytes, Credited]:
        """Return the credits of these transfers, among all accounts; transfers not credited yet are missing."""
        ...

    async def entries(
        self, pubkey: bytes, offset: int, limit: int, debits_only: bool, wanted: LedgerFilter = NO_FILTER
    ) -> list[Entry]:
        """List entries, newest first. With debits_only, a refunded debit has the amount 0, because its call consumed
        nothing."""
        ...

    async def expired(self, shards: Sequence[VirtualShard], now: int, limit: int) -> list[bytes]:
        """Return accounts with credits left in a batch that expired in the last 30 days. Older ones are handled when
        the account is used."""
        ...

    async def add_referral(self, referral: Referral) -> bool:
        """Add a code. False: the name exists, and its code stays unchanged."""
        ...

    async def find_referral(self, code: str) -> Referral | None: ...

    async def expire_referral(self, code: str, now: int) -> Referral | None:
        """Expire the code and return it. A code that has expired before keeps its time. None: no such code."""
        ...

    async def referrals(self) -> list[tuple[Referral, int]]:
        """Return all codes by name, each with the number of accounts that linked it."""
        ...

    async def close(self) -> None: ...


class _Writer(NamedTuple):
    """The connection kept for writing, with its two prepared statements.

    Taking a connection from the pool and finding the statement for every group would cost as much as the group."""

    connection: Any
    entry: Any
    group: Any


class PostgresAccountStore:
    """pool: of at least two connections; one is kept for writing."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        assert pool.get_max_size() >= 2, "storage.postgres_pool_size must be at least 2"
        self._pool = pool
        self._checked = False
        self._listing = asyncio.Semaphore(1)
        self.outbox: Outbox = PostgresOutbox(self._reading)
        self.usage: UsageStore = PostgresUsageStore(self._reading, self._listing)
        self.undelivered: UndeliveredStore = PostgresUndeliveredStore(self._reading)
        self.key_imports: KeyImports = PostgresKeyImports(self._reading)
        self.holders: HoldersStore = PostgresHoldersStore(self._reading)
        self.seals: SealsStore = PostgresSealsStore(self._reading, self._listing)
        self.bills: BillStore = PostgresBillStore(self._reading, self._listing)
        self.cuts = PostgresCutsStore(self._reading)
        self.directory: DirectoryStore = PostgresDirectory(self._reading, self._listing)
        self._writer: _Writer | None = None

    async def prepare(self, now_ms: int) -> None:
        if not self._checked:
            with away_as(StoreUnavailable):
                await check_schema(self._pool, [read_layout("actors.accounts")])
            self._checked = True
        async with self._reading() as connection:
            for first_ms in months(now_ms):
                await connection.execute("SELECT accounts_partition($1)", first_ms)

    async def has_owner(self, shards: Sequence[VirtualShard]) -> bool:
        async with self._reading() as connection:
            owned = await connection.fetchval(
                "SELECT EXISTS (SELECT 1 FROM shard_owner WHERE virtual_shard = ANY ($1) AND epoch > 0)", list(shards)
            )
        return bool(owned)

    async def take_over(self, owner: str, shards: Sequence[VirtualShard], renew: bool) -> int:
        async with self._reading() as connection:
            epoch = await connection.fetchval(
                "SELECT accounts_take_over($1, $2, $3)", owner, list(shards), renew, timeout=WRITE_SECONDS
            )
        if epoch is None:
            raise Fenced
        return int(epoch)

    async def check_owner(self, epoch: int, shards: Sequence[VirtualShard]) -> int:
        async with self._reading() as connection:
            owned, now_ms = await connection.fetchrow(
                f"SELECT count(*), {_NOW_MS} FROM shard_owner"  # noqa: S608 - a constant.
                " WHERE virtual_shard = ANY ($1) AND epoch = $2",
                *(list(shards), epoch),
            )
        if owned != len(shards):
            raise Fenced
        return int(now_ms)

    async def write(self, epoch: int, group: Write) -> int:
        try:
            if self._writer is None:
                self._writer = await self._open_writer()
            arguments = entry_arguments(group)
            if arguments is not None:
                rows = await self._writer.entry.fetch(epoch, *arguments, timeout=WRITE_SECONDS)
            else:
                rows = await self._writer.group.fetch(epoch, *group_arguments(group), timeout=WRITE_SECONDS)
        except BaseException as error:
            await self._drop_writer()
            if isinstance(error, asyncpg.PostgresError):
                if error.sqlstate == _FENCED:
                    raise Fenced from error
                if error.sqlstate in (_DIVERGED, _DOUBLED):
                    logger.error("accounts_write refused a group: %s", error)
            if isinstance(error, AWAY_AT_WORK):
                raise StoreUnavailable(f"{type(error).__name__}: {error}") from error
            raise
        return int(rows[0][0])

    async def _open_writer(self) -> _Writer:
        connection = await self._pool.acquire(timeout=WRITE_SECONDS)
        try:
            await connection.execute(_WRITER_SETTINGS)
            return _Writer(connection, await connection.prepare(_WRITE_ENTRY), await connection.prepare(_WRITE_GROUP))
        except BaseException:
            await self._pool.release(connection)
            raise

    async def _drop_writer(self) -> None:
        """Drop the writing connection after an error, because the state of its session is unknown. Awaits nothing from
        it."""
        writer, self._writer = self._writer, None
        if writer is not None:
            try:
                writer.connection.terminate()
                await self._pool.release(writer.connection, timeout=1)
            except AWAY_AT_WORK as error:
                logger.info("a lost connection could not be given back: %s", error)

    async def load(self, pubkey: bytes, since_ms: int) -> Stored | None:
        async with self._reading() as connection:
            row = await connection.fetchrow(_ACCOUNT, pubkey)
            if row is None:
                return None
            batches = await connection.fetch(
                f"SELECT {_BATCH_COLUMNS} FROM credit_batches WHERE pubkey = $1 AND remaining > 0",  # noqa: S608
                pubkey,
            )
            # The newest entry's time is known, so only the partitions of its month and of recent times are read.
            entries = await connection.fetch(RECENT_ENTRIES, pubkey, min(since_ms, row["last_ms"]))
            keys = await read_keys(connection, pubkey)
            marks = await connection.fetch(
                "SELECT kind, operation, at_ms, amount FROM account_operations"
                " WHERE pubkey = $1 AND kind = ANY ($2) AND at_ms >= $3",
                *(pubkey, [MarkKind.VOID, MarkKind.REFUND], since_ms),
            )
        return stored_account(row, batches, entries, marks, since_ms, keys)

    async def find_key(self, key_hash: bytes) -> bytes | None:
        async with self._reading() as connection:
            found: bytes | None = await connection.fetchval(FIND_KEY, key_hash)
        return found

    async def find_root(self, public: bytes) -> bytes | None:
        async with self._reading() as connection:
            found: bytes | None = await connection.fetchval(FIND_ROOT, public)
        return found

    async def find_mark(self, pubkey: bytes, kinds: Sequence[int], operation: bytes) -> Mark | None:
        async with self._reading() as connection:
            row = await connection.fetchrow(
                "SELECT kind, operation, at_ms, amount FROM account_operations"
                " WHERE pubkey = $1 AND kind = ANY ($2) AND operation = $3",
                *(pubkey, list(kinds), operation),
            )
        return None if row is None else Mark(*row)

    async def find_ended(self, operations: Sequence[tuple[bytes, bytes]]) -> dict[tuple[bytes, bytes], Past]:
        pubkeys, names = [pubkey for pubkey, _ in operations], [operation for _, operation in operations]
        async with self._reading() as connection:
            debits = await connection.fetch(_FIND_DEBITS, pubkeys, names)
            voids = await connection.fetch(_FIND_VOIDS, pubkeys, names)
        found = {
            (row[0], row[1]): Past(None if row[2] is None else Entry(*row[2:]), False) for row in map(tuple, debits)
        }
        for key in map(tuple, voids):
            found[key] = Past(found[key].debit if key in found else None, True)
        return found

    async def find_batches(self, pubkey: bytes, numbers: Sequence[int]) -> list[Batch]:
        async with self._reading() as connection:
            rows = await connection.fetch(
                f"SELECT {_BATCH_COLUMNS} FROM credit_batches WHERE pubkey = $1 AND id = ANY ($2)",  # noqa: S608
                *(pubkey, list(numbers)),
            )
        return [stored_batch(row) for row in rows]

    async def find_deposits(self, operations: Sequence[bytes]) -> dict[bytes, Credited]:
        async with self._reading() as connection:
            rows = await connection.fetch(
                "SELECT operation, pubkey, credits + bonus, assigned, returned_ms IS NOT NULL, COALESCE(taken, 0),"
                " COALESCE(uncollected, 0) FROM account_deposits WHERE operation = ANY ($1)",
                list(operations),
            )
        return {row[0]: Credited(*row[1:]) for row in map(tuple, rows)}

    async def entries(
        self, pubkey: bytes, offset: int, limit: int, debits_only: bool, wanted: LedgerFilter = NO_FILTER
    ) -> list[Entry]:
        columns = _ENTRY_COLUMNS
        if debits_only:
            wanted = msgspec.structs.replace(wanted, kind=int(EntryType.DEBIT))
            columns = columns.replace("amount", _CONSUMED)
        page, values = wanted.page(offset, limit)
        # One listing at a time: listings may be long, and the other connections load accounts and renew the shards.
        async with self._listing, self._reading() as connection:
            sql = f"SELECT {columns} FROM ({page}) AS page ORDER BY at_ms DESC, seq DESC"  # noqa: S608 - ours.
            rows = await connection.fetch(sql, pubkey, *values)
        return [Entry(*row) for row in rows]

    async def expired(self, shards: Sequence[VirtualShard], now: int, limit: int) -> list[bytes]:
        async with self._reading() as connection:
            rows = await connection.fetch(
                "SELECT DISTINCT b.pubkey FROM credit_batches b JOIN accounts a ON a.pubkey = b.pubkey"
                " WHERE b.expires_at > $3 AND b.expires_at <= $2 AND b.remaining > 0 AND a.virtual_shard = ANY ($1)"
                " LIMIT $4",
                *(list(shards), now, now - EXPIRED_LOOKED_BACK_SECONDS, limit),
            )
        return [row[0] for row in rows]

    async def add_referral(self, referral: Referral) -> bool:
        async with self._reading() as connection:
            return bool(await connection.fetchval("SELECT accounts_add_referral($1, $2, $3, $4, $5)", *referral))

    async def find_referral(self, code: str) -> Referral | None:
        async with self._reading() as connection:
            row = await connection.fetchrow(
                "SELECT code, bonus_bps, created_at, expires_at, note FROM referral_codes WHERE code = $1", code
            )
        return None if row is None else Referral(*row)

    async def expire_referral(self, code: str, now: int) -> Referral | None:
        async with self._reading() as connection:
            row = await connection.fetchrow(
                "SELECT code, bonus_bps, created_at, expires_at, note FROM accounts_expire_referral($1, $2)",
                *(code, now),
            )
        return None if row is None else Referral(*row)

    async def referrals(self) -> list[tuple[Referral, int]]:
        async with self._reading() as connection:
            rows = await connection.fetch(
                "SELECT r.code, r.bonus_bps, r.created_at, r.expires_at, r.note,"
                " (SELECT count(*) FROM accounts a WHERE a.ref_code = r.code AND a.ref_bonus_bps IS NOT NULL)"
                " FROM referral_codes r ORDER BY r.code"
            )
        return [(Referral(*row[:5]), row[5]) for row in map(tuple, rows)]

    async def close(self) -> None:
        await self._drop_writer()

    def _reading(self) -> AbstractAsyncContextManager[Any]:
        return borrowed(self._pool, WRITE_SECONDS, StoreUnavailable)
