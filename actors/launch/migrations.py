"""Brings the database to this version's schema, every context's part of it.

Implements: design, section 3 (storage). Wiring: each context keeps its own schema files, and only here all are known.
"""

from actors.config import Config
from actors.schema import migrate, read_layout
from actors.storage import connect_postgres

CONTEXTS = ("actors.accounts", "actors.deposits")


async def migrate_all(config: Config) -> None:
    """Many processes may do so at once. Raises storage.StoreUnreachable and schema.SchemaMismatch."""
    assert config.storage.postgres_url is not None
    pool = await connect_postgres(
        config.storage.postgres_url.get_secret_value(), connections_max=1, application="ledger-gateway migrations"
    )
    try:
        await migrate(pool, [read_layout(context) for context in CONTEXTS])
    finally:
        await pool.close()
