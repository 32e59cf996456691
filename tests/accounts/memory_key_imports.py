"""Turns of imports in memory; PostgreSQL has them as locks (actors/accounts/key_imports.py)."""

import asyncio
import contextlib
from collections.abc import AsyncIterator


class MemoryKeyImports:
    def __init__(self, keys: dict[bytes, bytes]) -> None:
        self._keys = keys
        self._turns: dict[bytes, asyncio.Lock] = {}

    @contextlib.asynccontextmanager
    async def turn(self, key_hash: bytes) -> AsyncIterator[bytes | None]:
        async with self._turns.setdefault(key_hash, asyncio.Lock()):
            await asyncio.sleep(0)
            yield self._keys.get(key_hash)
