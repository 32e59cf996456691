"""Reads usage, and keeps the rollup that makes reading cheap. The port, and PostgreSQL behind it.

Implements: README.md, "Usage". Decides nothing; the sums are made by accounts_usage() and accounts_roll_usage() in
functions.sql. The path that writes charges knows nothing of this: the rollup is derived from the ledger afterwards.
"""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, NamedTuple, Protocol

from actors.accounts.usage import ROWS_MAX, UsageLine, bucket_hours


class Rolled(NamedTuple):
    """entries: how many were rolled up now. seq: of the newest entry of the account that is in the rollup."""

    entries: int
    seq: int


class UsageStore(Protocol):
    """All methods raise StoreUnavailable."""

    async def read(self, pubkey: bytes, first_hour: int, end_hour: int, by: tuple[str, ...]) -> list[UsageLine]:
        """The usage of the hours from first_hour to before end_hour, counted from 1970: the rollup and the entries that
        are younger than it, of one moment. At most ROWS_MAX + 1 rows, in no order."""
        ...

    async def roll(self, pubkey: bytes, entries_max: int) -> Rolled:
        """Add the next entries of an account to the rollup. Each entry is added once for ever, whoever asks, however
        often, and whatever is killed meanwhile."""
        ...


class PostgresUsageStore:
    """listing: one long read at a time, as for the listings of the ledger: other connections are for the shard's
    life."""

    def __init__(self, reading: Callable[[], AbstractAsyncContextManager[Any]], listing: asyncio.Semaphore) -> None:
        self._reading, self._listing = reading, listing

    async def read(self, pubkey: bytes, first_hour: int, end_hour: int, by: tuple[str, ...]) -> list[UsageLine]:
        async with self._listing, self._reading() as connection:
            rows = await connection.fetch(
                "SELECT method, hour, calls, credits FROM accounts_usage($1, $2, $3, $4, $5, $6)",
                pubkey,
                first_hour,
                end_hour,
                "method" in by,
                bucket_hours(by),
                ROWS_MAX + 1,
            )
        return [UsageLine(*row) for row in map(tuple, rows)]

    async def roll(self, pubkey: bytes, entries_max: int) -> Rolled:
        async with self._reading() as connection:
            return Rolled(*await connection.fetchrow("SELECT * FROM accounts_roll_usage($1, $2)", pubkey, entries_max))
