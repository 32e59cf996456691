"""Turns of imports: one legacy key is imported by one owner at a time. The port, and PostgreSQL behind it.

Implements: interface, "API key" (legacy keys). Decides nothing. Owners share no memory, so two of them could both find
a key free; the database would then refuse the group of the second with everything in it, and its calls would pause.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol


class KeyImports(Protocol):
    def turn(self, key_hash: bytes) -> AbstractAsyncContextManager[bytes | None]:
        """Wait for the turn of this key, and keep it until the import is durable. Gives the account whose key it is
        now. Raises StoreUnavailable."""
        ...


class PostgresKeyImports:
    def __init__(self, reading: Callable[[], AbstractAsyncContextManager[Any]]) -> None:
        self._reading = reading

    @asynccontextmanager
    async def turn(self, key_hash: bytes) -> AsyncIterator[bytes | None]:
        async with self._reading() as connection, connection.transaction():
            await connection.execute("SELECT pg_advisory_xact_lock(hashtextextended($1, 16))", key_hash.hex())
            # By a statement of its own: it sees what the turn before has committed.
            yield await connection.fetchval("SELECT pubkey FROM accounts WHERE api_key_hash = $1", key_hash)
