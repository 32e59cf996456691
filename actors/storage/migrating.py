"""Brings a database to the tables, functions and rights of this release, step by step.

Implements: launch/README.md, "Upgrades". One process at a time holds a lock; each migration is one transaction with the
record of it, so a process that dies leaves whole steps, and the next one continues.
Not here: the plan (schema_plan.py), which processes run (running_releases.py).
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import asyncpg

from actors.release import FIRST_RELEASE, RELEASE, is_older
from actors.storage.connections import StoreUnreachable
from actors.storage.migration_files import Migration, bare, checksum
from actors.storage.running_releases import require_none_before
from actors.storage.schema import read_records
from actors.storage.schema_plan import ContextPlan, Layout, MigrationStep, SchemaChange, contract_from, plan

logger = logging.getLogger(__name__)

_LOCK = 0x6C65_6467_6572  # "ledger"; any fixed number that no other program uses in this database.
_LOCK_WAIT_SECONDS, _LOCK_POLL_SECONDS = 120.0, 0.1
_STATEMENT_SECONDS = 86_400.0  # Building an index of a large table takes hours; the operator can cancel it.
# Calls queue behind a migration that waits for a table lock. So it gives up after this time, lets them pass, and tries
# again.
_TABLE_WAIT_MS, _TABLE_TRIES, _TABLE_PAUSE_SECONDS = 2_000, 10, 1.0
# For the psql variable: an operator can apply grants.sql by hand.
_PRODUCT = ':"product"'
_RECORDS = """
CREATE TABLE IF NOT EXISTS schema_contexts (
    context         text        PRIMARY KEY,
    functions       text        NOT NULL,  -- Checksum of functions.sql.
    release         text        NOT NULL,  -- The newest that applied its files.
    compatible_from text        NOT NULL,  -- The oldest that may run on them.
    applied_at      timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE IF NOT EXISTS schema_migrations (
    context    text        NOT NULL,
    number     integer     NOT NULL,
    name       text        NOT NULL,
    checksum   text        NOT NULL,
    release    text        NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (context, number)
);
-- What 0.1.0 reads, and nobody else. Its processes go on while the database is compatible with it.
CREATE TABLE IF NOT EXISTS schema_version (
    context    text        PRIMARY KEY,
    tables     text        NOT NULL,
    functions  text        NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
);
"""
# No row: the table is no partitioned one. A partitioned table without partitions gives one row without a name.
_PARTITIONS = (
    "SELECT p.relname, EXISTS (SELECT FROM pg_inherits x JOIN pg_index i ON i.indexrelid = x.inhrelid"
    " WHERE x.inhparent = to_regclass($2) AND i.indrelid = p.oid)"
    " FROM pg_class t LEFT JOIN pg_inherits h ON h.inhparent = t.oid LEFT JOIN pg_class p ON p.oid = h.inhrelid"
    " WHERE t.oid = to_regclass($1) AND t.relkind = 'p' ORDER BY p.relname"
)
_KEEP_NUMBER = (
    "INSERT INTO schema_migrations (context, number, name, checksum, release) VALUES ($1, $2, $3, $4, $5)"
    " ON CONFLICT DO NOTHING"
)
_KEEP_CONTEXT = (
    "INSERT INTO schema_contexts (context, functions, release, compatible_from) VALUES ($1, $2, $3, $4)"
    " ON CONFLICT (context) DO UPDATE SET functions = EXCLUDED.functions, release = EXCLUDED.release,"
    " compatible_from = EXCLUDED.compatible_from, applied_at = now()"
    " WHERE (schema_contexts.functions, schema_contexts.release, schema_contexts.compatible_from)"
    " IS DISTINCT FROM (EXCLUDED.functions, EXCLUDED.release, EXCLUDED.compatible_from)"
)
_KEEP_FOR_FIRST_RELEASE = "INSERT INTO schema_version (context, tables, functions) VALUES ($1, $2, $3)"


async def plans_of(connection: Any, layouts: Sequence[Layout], release: str = RELEASE) -> list[ContextPlan]:
    """Return what this database needs, by context. Raises SchemaMismatch, also while a contract migration is due and
    processes run that it would break."""
    found = await read_records(connection)
    plans = [plan(layout, found, release) for layout in layouts]
    oldest = contract_from(plans)
    if oldest is not None:
        await require_none_before(connection, oldest)
    return plans


async def migrate(
    pool: asyncpg.Pool,
    layouts: Sequence[Layout],
    product: str | None = None,
    *,
    release: str = RELEASE,
    is_dry_run: bool = False,
) -> tuple[MigrationStep, ...]:
    """Bring the database to these layouts, and return the steps that were made now.

    Many processes may call it at once. pool: of the role that owns the tables. product: the role that gets the rights
    in grants.sql and loses all others; None: the product runs with the owner's role. is_dry_run: all of it is one
    transaction that is rolled back, without the steps outside transactions. Raises SchemaMismatch, as plans_of does.
    """
    assert len({layout.context for layout in layouts}) == len(layouts), "a context is listed twice"
    async with pool.acquire() as connection, _locked(connection):
        plans = await plans_of(connection, layouts, release)
        made = _Migrating(connection, product, release, is_dry_run)
        if not is_dry_run:
            await made.all(plans)
        else:
            transaction = connection.transaction()
            await transaction.start()
            try:
                await made.all(plans)
            finally:
                await transaction.rollback()
        return tuple(made.steps)


@asynccontextmanager
async def _locked(connection: Any) -> AsyncIterator[None]:
    await connection.execute("SET statement_timeout = 0")
    try:
        # Asked for again and again: a statement that waits for a lock has a snapshot, for whose end CREATE INDEX
        # CONCURRENTLY waits, and that one has the lock.
        polls = 0
        while not await connection.fetchval("SELECT pg_try_advisory_lock($1)", _LOCK):
            polls += 1
            if polls * _LOCK_POLL_SECONDS > _LOCK_WAIT_SECONDS:
                raise StoreUnreachable(
                    f"PostgreSQL: another process has held the schema lock for {_LOCK_WAIT_SECONDS:g} s; "
                    "wait for it, or end the session that pg_locks shows with locktype 'advisory'"
                )
            await asyncio.sleep(_LOCK_POLL_SECONDS)
        try:
            yield
        finally:
            await connection.execute("SELECT pg_advisory_unlock($1)", _LOCK)
    finally:
        await connection.execute("RESET statement_timeout")


class _Migrating:
    """One run over all plans, on a connection that has the lock."""

    def __init__(self, connection: Any, product: str | None, release: str, is_dry_run: bool) -> None:
        self._connection, self._product, self._release = connection, product, release
        self._is_dry_run = is_dry_run
        self.steps: list[MigrationStep] = []

    async def all(self, plans: Sequence[ContextPlan]) -> None:
        await self._transaction(self._make_records)
        for each in plans:
            if each.is_newer:
                logger.info("database: %s is of a newer release, and stays as it is", each.layout.context)
                continue
            for step in each.steps:
                if step.migration is not None:
                    await self._migration(each, step, step.migration)
            await self._transaction(partial(self._files, each))

    async def _make_records(self) -> None:
        await self._connection.execute(_RECORDS)
        if self._product is not None:
            await self._connection.execute(
                f"GRANT SELECT ON schema_contexts, schema_migrations, schema_version TO {quoted(self._product)}"
            )

    async def _migration(self, each: ContextPlan, step: MigrationStep, migration: Migration) -> None:
        if migration.index is not None:
            if self._is_dry_run:
                return
            if await self._partitions(migration) is None:
                await self._index(migration.index, bare(migration.sql))
            else:
                await self._partitioned_index(migration, migration.index)
            await self._transaction(partial(self._keep_number, each, migration))
        else:
            await self._transaction(partial(self._tables, each, migration))
        self._done(step)

    async def _tables(self, each: ContextPlan, migration: Migration) -> None:
        oldest = migration.contract_from
        if oldest is not None:
            # New connections ask this table, and wait; those from before are seen.
            await self._connection.execute("LOCK TABLE schema_contexts IN ACCESS EXCLUSIVE MODE")
            await require_none_before(self._connection, oldest)
            await self._connection.execute("UPDATE schema_contexts SET compatible_from = $1", oldest)
            if is_older(FIRST_RELEASE, oldest):
                await self._connection.execute("UPDATE schema_version SET tables = $1", f"for {oldest} and newer")
        await self._connection.execute(migration.sql, timeout=_STATEMENT_SECONDS)
        await self._keep_number(each, migration)

    async def _partitions(self, migration: Migration) -> list[tuple[str, bool]] | None:
        """Return the partitions of the table that gets an index, each with whether it has its part; None: it has no
        partitions because it is an ordinary table."""
        rows = await self._connection.fetch(_PARTITIONS, migration.index_of, migration.index)
        return [(name, has_part) for name, has_part in rows if name] if rows else None

    async def _partitioned_index(self, migration: Migration, index: str) -> None:
        """Make an index of a partitioned table while writes go on, which PostgreSQL does not do by itself. Partitions
        that are made meanwhile get their parts at once. It is valid with the last part. A run that was cut off has left
        some of the parts."""
        table, sql = migration.index_of, bare(migration.sql)
        if await self._connection.fetchval("SELECT to_regclass($1)", index) is None:
            without_parts = sql.replace(" CONCURRENTLY ", " ").replace(f" ON {table} ", f" ON ONLY {table} ")
            await self._transaction(partial(self._connection.execute, without_parts))
        for partition, has_part in await self._partitions(migration) or ():
            if has_part:
                continue
            part = f"{partition}_{index}"
            await self._index(part, sql.replace(f" {index} ON {table} ", f" {quoted(part)} ON {quoted(partition)} "))
            attach = f"ALTER INDEX {quoted(index)} ATTACH PARTITION {quoted(part)}"
            await self._transaction(partial(self._connection.execute, attach))

    async def _index(self, index: str, sql: str) -> None:
        """Make an index while writes go on. A run that was cut off leaves an invalid index, or a valid one that is not
        recorded."""
        is_valid = await self._connection.fetchval(
            "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass($1)", quoted(index)
        )
        if is_valid is False:
            await self._connection.execute(f"DROP INDEX CONCURRENTLY {quoted(index)}", timeout=_STATEMENT_SECONDS)
        if not is_valid:
            await self._connection.execute(sql, timeout=_STATEMENT_SECONDS)

    async def _files(self, each: ContextPlan) -> None:
        """Tables of a new context; then its functions, its record and the rights."""
        layout, connection = each.layout, self._connection
        is_new = bool(each.steps) and each.steps[0].change is SchemaChange.TABLES
        if is_new:
            await connection.execute(layout.schema)
            await connection.execute(
                _KEEP_FOR_FIRST_RELEASE, layout.context, checksum(layout.schema), layout.functions_checksum
            )
        if bare(layout.functions):  # The driver fails on a text without a statement.
            await connection.execute(layout.functions)
        await connection.execute(
            _KEEP_CONTEXT, layout.context, layout.functions_checksum, self._release, each.compatible_from
        )
        for number, text in layout.checksums.items():
            name = layout.migrations[number - 1].name if layout.migrations else "0001_first"
            await connection.execute(_KEEP_NUMBER, layout.context, number, name, text, self._release)
        if self._product is not None and bare(layout.grants):
            await connection.execute(layout.grants.replace(_PRODUCT, quoted(self._product)))
        for step in each.steps:
            if step.migration is None:
                self._done(step)

    async def _keep_number(self, each: ContextPlan, migration: Migration) -> None:
        context, release = each.layout.context, self._release
        await self._connection.execute(
            _KEEP_NUMBER, context, migration.number, migration.name, migration.checksum, release
        )

    async def _transaction(self, work: Callable[[], Awaitable[None]]) -> None:
        for attempt in range(1, _TABLE_TRIES + 1):
            try:
                async with self._connection.transaction():
                    await self._connection.execute(f"SET LOCAL lock_timeout = {_TABLE_WAIT_MS}")
                    await work()
                return
            except asyncpg.LockNotAvailableError as error:
                if attempt == _TABLE_TRIES:
                    raise StoreUnreachable(
                        f"PostgreSQL: a table is in use by another transaction ({error}); end the session that "
                        "pg_stat_activity shows longest in a transaction, and migrate again: what was done stays"
                    ) from error
                await asyncio.sleep(_TABLE_PAUSE_SECONDS)

    def _done(self, step: MigrationStep) -> None:
        self.steps.append(step)
        if not self._is_dry_run:
            logger.info("database: %s, %s: %s", step.context, step.name, step.what)


def quoted(name: str) -> str:
    """Quote a name for SQL."""
    return '"' + name.replace('"', '""') + '"'
