"""Brings the database to this version's tables, functions and rights, every context's part of it.

Implements: design, section 3 (storage); money rule 6 (append-only, also for the product's own role). Wiring: each
context keeps its own SQL files, and only here all are known. Two roles: the one of storage.postgres_migrations_url owns
the tables, the one of storage.postgres_url runs the product. roles.sql makes both on an operator's server.
"""

import logging
from collections.abc import Sequence
from contextlib import suppress

import asyncpg

from actors.config import Config
from actors.storage.connections import connect_postgres, describe_url
from actors.storage.schema import Layout, check_schema, migrate, read_layout

logger = logging.getLogger(__name__)

CONTEXTS = ("actors.accounts", "actors.deposits")
_APPLICATION = "ledger-gateway migrations"
# Rights of the present role that would let it change the ledger or the tables' rules.
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
    """Many processes may do so at once. Gives the settings without the migrations' URL: no other process needs it.

    Raises storage.StoreUnreachable and schema.SchemaMismatch. Logs a warning when the product's role is too strong.
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
            # One role for both; or one without the right to make tables, for which another run has made them.
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
    """Reasons why this role could change the ledger or get round its rules. Empty: it has the product's rights only."""
    row = await pool.fetchrow(_RIGHTS)
    assert row is not None
    return [words for name, words in _EXCESS.items() if row[name]]


def _advice(where: str, product: str, excess: Sequence[str]) -> str:
    return (
        f"PostgreSQL at {where}: the product runs with role {product}, which is too strong: {', and '.join(excess)}. "
        "Make two roles with actors/launch/roles.sql, give DATABASE_URL the weaker one, and "
        "LEDGER_STORAGE__POSTGRES_MIGRATIONS_URL the one that owns the tables"
    )
