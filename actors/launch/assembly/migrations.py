"""Brings the database to this version's tables, functions and rights, for all contexts.

Implements: design, "Layout" (storage); money rule 6 (append-only, also for the product's own role). Wiring: each
context keeps its own SQL files, and only this module knows all contexts. There are two roles. The role of
storage.postgres_migrations_url owns the tables; the role of storage.postgres_url runs the product. On an operator's
server, roles.sql creates both.
"""

import logging
from collections.abc import Sequence
from contextlib import suppress

import asyncpg

from actors.config import Config
from actors.storage.connections import connect_postgres, describe_url
from actors.storage.schema import Layout, check_schema, migrate, read_layout

logger = logging.getLogger(__name__)

CONTEXTS = (
    *("actors.ownership", "actors.accounts", "actors.deposits", "actors.idempotency", "actors.sends", "actors.signals"),
    "actors.webhooks",
)
_APPLICATION = "ledger-gateway migrations"
# Rights by which the current role could change the ledger or the rules of its tables.
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
    storage = config.storage
    assert storage.postgres_url is not None
    layouts = [read_layout(context) for context in CONTEXTS]
    url, owner_url = storage.postgres_url.get_secret_value(), storage.postgres_migrations_url
    pool = await connect_postgres(url, connections_max=1, application=_APPLICATION)
    try:
        product: str = await pool.fetchval("SELECT current_user::text")
        if owner_url is not None:
            await _migrate_as_owner(owner_url.get_secret_value(), layouts, product)
        else:
            # Either one role has both duties, or another run has made the tables and this role may not make any.
            with suppress(asyncpg.InsufficientPrivilegeError):
                await migrate(pool, layouts)
        await check_schema(pool, layouts)
        excess = await excess_rights(pool)
    finally:
        await pool.close()
    if excess:
        logger.warning("%s", _advice(describe_url(url), product, excess))
    return config.model_copy(update={"storage": storage.model_copy(update={"postgres_migrations_url": None})})


async def _migrate_as_owner(url: str, layouts: Sequence[Layout], product: str) -> None:
    pool = await connect_postgres(url, connections_max=1, application=_APPLICATION)
    try:
        owner = await pool.fetchval("SELECT current_user::text")
        await migrate(pool, layouts, None if owner == product else product)
    finally:
        await pool.close()


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
