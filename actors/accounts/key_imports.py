"""Serialises imports: one owner at a time imports a legacy key. The port, and PostgreSQL behind it.

Implements: interface, "API key" (legacy keys). Decides nothing. Owners share no memory, so two could both find a key
unused; the database would then refuse the whole group of the second owner, and its calls would pause.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol


class KeyImports(Protocol):
    def turn(self, key_hash: bytes) -> AbstractAsyncContextManager[bytes | None]:
        """Take the lock of this key until the import is durable. Yields the account that has the key now. Raises
        StoreUnavailable."""
        ...


class PostgresKeyImports:
    def __init__(self, reading: Callable[[], AbstractAsyncContextManager[Any]]) -> None:
        self._reading = reading

    @asynccontextmanager
    async def turn(self, key_hash: bytes) -> AsyncIterator[bytes | None]:
        async with self._reading() as connection, connection.transaction():
            await connection.execute("SELECT pg_advisory_xact_lock(hashtextextended($1, 16))", key_hash.hex())
            # A separate statement, so that it sees the commit of the import before.
            yield await connection.fetchval("SELECT pubkey FROM accounts WHERE api_key_hash = $1", key_hash)
