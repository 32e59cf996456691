"""Brings the database to this version's tables, functions and rights, for all contexts.

Implements: design, "Layout" (storage); money rule 6 (append-only, also for the product's own role). Wiring: each
context keeps its own SQL files, and only this module knows all contexts. There are two roles. The role of
storage.postgres_migrations_url owns the tables; the role of storage.postgres_url runs the product. On an operator's
server, roles.sql creates both.
"""

import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import asyncpg

from actors.config import Config
from actors.storage.connections import connect_postgres, describe_url
from actors.storage.migrating import migrate, plans_of
from actors.storage.schema import check_schema, read_layout
from actors.storage.schema_plan import Layout, MigrationStep, SchemaMismatch

logger = logging.getLogger(__name__)

CONTEXTS = (
    *("actors.ownership", "actors.accounts", "actors.deposits", "actors.idempotency", "actors.sends", "actors.signals"),
    *("actors.webhooks", "actors.memos", "actors.upstream"),
)
_APPLICATION = "ledger-gateway migrations"
# Rights with which the current role could change the ledger or the rules of its tables.
_RIGHTS = """
SELECT current_user::text AS role, r.rolsuper AS superuser, r.rolcreaterole AS makes_roles,
       pg_has_role(c.relowner, 'MEMBER') AS owner,
       has_table_privilege(c.oid, 'UPDATE, DELETE, TRUNCATE, TRIGGER') OR has_any_column_privilege(c.oid, 'UPDATE')
           AS writes,
       has_schema_privilege(c.relnamespace, 'CREATE') AS makes_tables
FROM pg_class AS c, pg_roles AS r WHERE c.oid = 'ledger'::regclass AND r.rolname = current_user
"""
_EXCESS = {
    "superuser": "it is a superuser",
    "owner": "it owns the tables",
    "writes": "it may change or remove entries of the ledger",
    "makes_roles": "it may make roles",
    "makes_tables": "it may make tables and functions beside the product's",
}


async def migrate_all(config: Config) -> Config:
    """Migrate every context, and return the settings without the migrations' URL, which no other process needs.

    Many processes may call it at once. Raises StoreUnreachable and SchemaMismatch. Logs a warning when the product's
    role has too many rights.
    """
    layouts = _layouts()
    async with _as_product(config) as pool:
        product: str = await pool.fetchval("SELECT current_user::text")
        # Without a second role, either one has both duties, or another run has made the tables and this role may not.
        with suppress(*(() if config.storage.postgres_migrations_url else (asyncpg.InsufficientPrivilegeError,))):
            await _migrate_as_owner(config, layouts, product)
        await check_schema(pool, layouts)
        excess = await excess_rights(pool)
    if excess:
        logger.warning("%s", _advice(describe_url(_url(config)), product, excess))
    storage = config.storage.model_copy(update={"postgres_migrations_url": None})
    return config.model_copy(update={"storage": storage})


async def planned_steps(config: Config) -> tuple[MigrationStep, ...]:
    """Return the steps that migrate_all would make. Changes nothing, and needs only the product's rights.

    Raises StoreUnreachable and SchemaMismatch.
    """
    async with _as_product(config) as pool, pool.acquire() as connection:
        return await steps_of(connection)


async def steps_of(connection: Any) -> tuple[MigrationStep, ...]:
    """As planned_steps, over a connection of any kind: also to a server that takes no writes. Raises SchemaMismatch."""
    plans = await plans_of(connection, _layouts())
    return tuple(step for each in plans for step in each.steps)


async def try_out(config: Config) -> tuple[MigrationStep, ...]:
    """Make the steps in one transaction that is rolled back, and return them, but for those outside transactions.

    Raises what migrate_all raises, and SchemaMismatch for a role that may not make tables.
    """
    async with _as_product(config) as pool:
        product: str = await pool.fetchval("SELECT current_user::text")
        try:
            return await _migrate_as_owner(config, _layouts(), product, is_dry_run=True)
        except asyncpg.InsufficientPrivilegeError as error:
            raise SchemaMismatch(
                f"a dry run needs the role that owns the tables ({error}): set LEDGER_STORAGE__POSTGRES_MIGRATIONS_URL"
            ) from error


async def _migrate_as_owner(
    config: Config, layouts: Sequence[Layout], product: str, *, is_dry_run: bool = False
) -> tuple[MigrationStep, ...]:
    owner_url = config.storage.postgres_migrations_url
    url = _url(config) if owner_url is None else owner_url.get_secret_value()
    pool = await connect_postgres(url, connections_max=1, application=_APPLICATION)
    try:
        owner = await pool.fetchval("SELECT current_user::text")
        return await migrate(pool, layouts, None if owner == product else product, is_dry_run=is_dry_run)
    finally:
        await pool.close()


@asynccontextmanager
async def _as_product(config: Config) -> AsyncIterator[asyncpg.Pool]:
    pool = await connect_postgres(_url(config), connections_max=1, application=_APPLICATION)
    try:
        yield pool
    finally:
        await pool.close()


def _url(config: Config) -> str:
    assert config.storage.postgres_url is not None
    return config.storage.postgres_url.get_secret_value()


def _layouts() -> list[Layout]:
    return [read_layout(context) for context in CONTEXTS]


async def excess_rights(pool: asyncpg.Pool) -> list[str]:
    """Return the reasons why this role could change the ledger or evade its rules. Empty: it has no excess rights."""
    row = await pool.fetchrow(_RIGHTS)
    assert row is not None
    return [words for name, words in _EXCESS.items() if row[name]]


def _advice(where: str, product: str, excess: Sequence[str]) -> str:
    return (
        f"PostgreSQL at {where}: the product runs with role {product}, which is too strong: {', and '.join(excess)}. "
        "Make two roles with actors/launch/roles.sql, give DATABASE_URL the weaker one, and "
        "LEDGER_STORAGE__POSTGRES_MIGRATIONS_URL the one that owns the tables"
    )
