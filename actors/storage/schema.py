"""Brings a database to the tables, functions and rights of each context.

Implements: design, "Layout" (storage). A context has three files beside its store: `schema.sql` (tables, applied
once), `functions.sql` (applied at every start, so each function stands in the project once) and `grants.sql` (rights of
the product's role, applied at every start). The role that owns the tables applies them. The product runs with a role
that has only the rights in `grants.sql`.
Not here: connections (connections.py), the list of contexts and the roles (launch/assembly/migrations.py).
"""

import hashlib
import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources

import asyncpg

from actors.storage.connections import StoreUnreachable

logger = logging.getLogger(__name__)

_LOCK = 0x6C65_6467_6572  # "ledger"; any fixed number that no other program uses in this database.
_LOCK_WAIT_SECONDS = 120.0
_COMMENTS_AND_SPACES = re.compile(r"--[^\n]*|\s+")
# The form of a psql variable, so that an operator can apply grants.sql by hand.
_PRODUCT = ':"product"'
_VERSIONS = (
    "CREATE TABLE IF NOT EXISTS schema_version ("
    "context text PRIMARY KEY, tables text NOT NULL, functions text NOT NULL,"
    " applied_at timestamptz NOT NULL DEFAULT now())"
)
_KEEP_VERSION = (
    "INSERT INTO schema_version (context, tables, functions) VALUES ($1, $2, $3)"
    " ON CONFLICT (context) DO UPDATE SET functions = EXCLUDED.functions, applied_at = now()"
    " WHERE schema_version.functions <> EXCLUDED.functions"
)
_OTHER_VERSION = (
    "was made by another version of this product, and its tables differ: run that version; or start a local run afresh "
    "with --fresh, or give an empty database"
)


class SchemaMismatch(Exception):
    """The database's tables differ from those of this version; the text says what to do."""


@dataclass(frozen=True, slots=True)
class Layout:
    """One context's SQL files, as text."""

    context: str
    schema: str
    functions: str
    grants: str

    @property
    def version(self) -> tuple[str, str]:
        """Return the checksums of the tables and of the functions. Comments and spaces do not count."""
        return _checksum(self.schema), _checksum(self.functions)


def _checksum(sql: str) -> str:
    return hashlib.sha256(_bare(sql).encode()).hexdigest()


def _bare(sql: str) -> str:
    """Remove comments, and make all spaces single."""
    return _COMMENTS_AND_SPACES.sub(" ", sql).strip()


def read_layout(package: str) -> Layout:
    """Read the SQL files of a context. package: such as "actors.accounts". A missing file counts as empty."""
    folder = resources.files(package)

    def text(name: str) -> str:
        file = folder / name
        return file.read_text(encoding="utf-8") if file.is_file() else ""

    return Layout(package.rpartition(".")[2], text("schema.sql"), text("functions.sql"), text("grants.sql"))


async def check_schema(pool: asyncpg.Pool, layouts: Sequence[Layout]) -> None:
    """Raise SchemaMismatch unless the database has these layouts. Needs only the product's rights."""
    async with pool.acquire() as connection:
        await _refuse_older(connection)
        found = await _found(connection)
    for layout in layouts:
        version = found.get(layout.context)
        if version is None:
            raise SchemaMismatch(
                f"this database has no tables of {layout.context} yet: start the product once with "
                "LEDGER_STORAGE__POSTGRES_MIGRATIONS_URL set to the same database and a role that may create tables"
            )
        _refuse_other(layout, version)
        if version[1] != layout.version[1]:
            raise SchemaMismatch(
                f"the functions of {layout.context} in this database are of another version: start the product once "
                "with LEDGER_STORAGE__POSTGRES_MIGRATIONS_URL set to the role that owns the tables"
            )


async def migrate(pool: asyncpg.Pool, layouts: Sequence[Layout], product: str | None = None) -> tuple[str, ...]:
    """Bring the database to these layouts, and return the contexts whose tables were made now.

    Many processes may call it at once. pool: of the role that owns the tables. product: the role that gets the rights
    in grants.sql and loses all others; None: the product runs with the owner's role. Each context is migrated in one
    transaction. Raises SchemaMismatch when the tables are of another version.
    """
    assert len({layout.context for layout in layouts}) == len(layouts), "a context is listed twice"
    async with pool.acquire() as connection:
        await connection.execute("SET statement_timeout = 0")  # Another process may hold the lock for a long time.
        try:
            await connection.execute("SELECT pg_advisory_lock($1)", _LOCK, timeout=_LOCK_WAIT_SECONDS)
            try:
                return await _migrate_locked(connection, layouts, product)
            finally:
                await connection.execute("SELECT pg_advisory_unlock($1)", _LOCK)
        except TimeoutError as error:
            raise StoreUnreachable(
                f"PostgreSQL: another process has held the schema lock for {_LOCK_WAIT_SECONDS:g} s; "
                "wait for it, or end the session that pg_locks shows with locktype 'advisory'"
            ) from error
        finally:
            await connection.execute("RESET statement_timeout")


async def _migrate_locked(
    connection: asyncpg.pool.PoolConnectionProxy, layouts: Sequence[Layout], product: str | None
) -> tuple[str, ...]:
    await _refuse_older(connection)
    found = await _found(connection)
    for layout in layouts:
        if layout.context in found:
            _refuse_other(layout, found[layout.context])
    news = tuple(layout.context for layout in layouts if layout.context not in found)
    if not found:
        await connection.execute(_VERSIONS)
    for layout in layouts:
        async with connection.transaction():
            if layout.context in news:
                await connection.execute(layout.schema)
                logger.info("database: made the tables of %s", layout.context)
            if _bare(layout.functions):  # The driver fails on a text without any statement.
                await connection.execute(layout.functions)
            await connection.execute(_KEEP_VERSION, layout.context, *layout.version)
            if product is not None and _bare(layout.grants):
                await connection.execute(f"GRANT SELECT ON schema_version TO {quoted(product)}")
                await connection.execute(layout.grants.replace(_PRODUCT, quoted(product)))
    return news


async def _found(connection: asyncpg.pool.PoolConnectionProxy) -> dict[str, tuple[str, str]]:
    """Return the versions of tables and functions in the database, by context."""
    if await connection.fetchval("SELECT to_regclass('schema_version')") is None:
        return {}
    rows = await connection.fetch("SELECT context, tables, functions FROM schema_version")
    return {context: (tables, functions) for context, tables, functions in rows}


async def _refuse_older(connection: asyncpg.pool.PoolConnectionProxy) -> None:
    """Raise SchemaMismatch for a database of a version before 0.1.0, which has a table of applied files."""
    if await connection.fetchval("SELECT to_regclass('schema_files')") is not None:
        raise SchemaMismatch(f"this database {_OTHER_VERSION}")


def _refuse_other(layout: Layout, version: tuple[str, str]) -> None:
    if version[0] != layout.version[0]:
        raise SchemaMismatch(f"this database ({layout.context}) {_OTHER_VERSION}")


def quoted(name: str) -> str:
    """Quote a role's name for SQL."""
    return '"' + name.replace('"', '""') + '"'
