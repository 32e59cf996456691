"""Statements that tests run with a role of their choice, beside the product's own."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
from pydantic import SecretStr

from actors.config import Config, StorageConfig
from actors.launch.assembly.migrations import migrate_all
from actors.local_servers.embedded_postgres import EmbeddedPostgres
from actors.storage.connections import connect_postgres


def of_database(url: str, name: str) -> str:
    """The same server and role, another database."""
    return url.replace("@/postgres?", f"@/{name}?")


async def as_role(url: str, *statements: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        for statement in statements:
            await connection.execute(statement)
    finally:
        await connection.close()


@asynccontextmanager
async def emptied(url: str, owner_url: str, *statements: str, connections_max: int = 8) -> AsyncIterator[asyncpg.Pool]:
    """A pool with the product's role, after statements of the tables' owner, as TRUNCATE."""
    await as_role(owner_url, *statements)
    pool = await connect_postgres(url, connections_max=connections_max, application="tests")
    try:
        yield pool
    finally:
        pool.terminate()  # Closing waits for what a failed test has not given back.


async def drop(url: str, name: str) -> None:
    """Drop a database and end its connections. Raises TimeoutError when the role may never end them."""
    async with asyncio.timeout(60):
        while True:
            try:
                return await as_role(url, f"DROP DATABASE {name} WITH (FORCE)")
            except asyncpg.InsufficientPrivilegeError:  # Its autovacuum, which this role may not end, is soon over.
                await asyncio.sleep(0.1)


async def tamper(owner_url: str, *statements: str) -> None:
    """Change tables behind the product's back, the ledger too, as a person with every right would."""
    stop, go = (f"ALTER TABLE ledger {word} TRIGGER append_only" for word in ("DISABLE", "ENABLE"))
    await as_role(owner_url, stop, *statements, go)


async def bring_up(server: EmbeddedPostgres, database: str = "postgres") -> None:
    """Make every context's tables in a database of this server, as a start of the product does."""
    storage = StorageConfig(
        postgres_url=SecretStr(of_database(server.url, database)),
        postgres_migrations_url=SecretStr(of_database(server.migrations_url, database)),
    )
    await migrate_all(Config(storage=storage))
