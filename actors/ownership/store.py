"""Stores the holder of each slice, and how many actors of a kind an operator wants. The port, and PostgreSQL behind it.

Implements: design, "Owners, for every kind of actor". Decides nothing. The check that an owner's own writes make stands
in functions.sql: ownership_check() for one slice, ownership_still() for all that an owner holds.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Protocol

import asyncpg

from actors.config import StorageConfig
from actors.ownership.api import Commanded, Owned, OwnershipUnavailable
from actors.storage.connections import away_as, checked_postgres


class OwnershipStore(Protocol):
    """Stores ownership. Every method raises OwnershipUnavailable."""

    async def claim(self, kind: str, slices: Sequence[int], holder: str) -> int:
        """Take these slices, whoever holds them. Gives the new epoch, one for all of them, above all earlier ones.

        When this returns, every write by an epoch before has either been made or never will be. Claiming twice is
        harmless: the second epoch is newer.
        """
        ...

    async def holders(self, kind: str) -> Mapping[int, Owned]:
        """Return the owner of each slice that was ever claimed."""
        ...

    async def wanted(self, kind: str, setting: int) -> int:
        """Return how many actors of a kind there shall be. setting: the number in the settings.

        An operator's command wins as long as the setting is the one that it was given under. Another setting ends the
        command for good.
        """
        ...

    async def commanded(self, kind: str) -> Commanded | None:
        """Return the stored command. None: there is none, or another setting has ended it."""
        ...

    async def set_wanted(self, kind: str, wanted: int, setting: int) -> None:
        """Store an operator's command. The next process that places actors carries it out."""
        ...


class PostgresOwnership:
    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def claim(self, kind: str, slices: Sequence[int], holder: str) -> int:
        with away_as(OwnershipUnavailable):
            return int(await self._pool.fetchval("SELECT ownership_claim($1, $2, $3)", kind, list(slices), holder))

    async def holders(self, kind: str) -> Mapping[int, Owned]:
        with away_as(OwnershipUnavailable):
            rows = await self._pool.fetch("SELECT slice, holder, epoch FROM ownership WHERE kind = $1", kind)
        return {row["slice"]: Owned(row["holder"], row["epoch"]) for row in rows}

    async def wanted(self, kind: str, setting: int) -> int:
        with away_as(OwnershipUnavailable):
            return int(await self._pool.fetchval("SELECT ownership_wanted($1, $2)", kind, setting))

    async def commanded(self, kind: str) -> Commanded | None:
        with away_as(OwnershipUnavailable):
            row = await self._pool.fetchrow("SELECT wanted, setting FROM actor_counts WHERE kind = $1", kind)
        return None if row is None else Commanded(*row)

    async def set_wanted(self, kind: str, wanted: int, setting: int) -> None:
        assert wanted > 0, wanted
        with away_as(OwnershipUnavailable):
            await self._pool.execute("SELECT ownership_set_wanted($1, $2, $3)", kind, wanted, setting)


@asynccontextmanager
async def opened_ownership(storage: StorageConfig, application: str) -> AsyncIterator[PostgresOwnership]:
    """Open the store for a task, such as placing actors. A server that does not answer is tried again by each call."""
    assert storage.postgres_url is not None
    url = storage.postgres_url.get_secret_value()
    pool = await checked_postgres(url, connections_max=1, application=application)
    try:
        yield PostgresOwnership(pool)
    finally:
        pool.terminate()
