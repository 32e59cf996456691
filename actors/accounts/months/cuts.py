"""What the product asks about cuts of the ledger: since when entries are kept, and what an account carried over.

Implements: decisions, "Detached months". The port, and PostgreSQL behind it. Reads alone: the role that owns the tables
writes them (detaching.py).
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from typing import Any, Protocol

from actors.accounts.months.carried import COLUMNS, Carried, carried_of
from actors.errors import Err, Refusal

_KEPT_FROM = "SELECT COALESCE(max(next_ms), 0) FROM ledger_cuts"
_CARRIED = f"SELECT {COLUMNS} FROM ledger_carried WHERE pubkey = $1"  # noqa: S608 - ours.


class CutsStore(Protocol):
    """All methods raise StoreUnavailable."""

    async def kept_from_ms(self) -> int:
        """The first millisecond whose entries the ledger still has; 0: all."""
        ...

    async def carried(self, pubkey: bytes) -> Carried | None:
        """What this account carried over the newest cut; None: it had no entries before it."""
        ...

    async def debited_ms(self, operation: bytes) -> int | None:
        """The time of the entry by which this operation was debited, whether it is still here or not."""
        ...


class PostgresCutsStore:
    def __init__(self, reading: Callable[[], AbstractAsyncContextManager[Any]]) -> None:
        self._reading = reading

    async def kept_from_ms(self) -> int:
        async with self._reading() as connection:
            return int(await connection.fetchval(_KEPT_FROM))

    async def carried(self, pubkey: bytes) -> Carried | None:
        async with self._reading() as connection:
            row = await connection.fetchrow(_CARRIED, pubkey)
        return None if row is None else carried_of(row)

    async def debited_ms(self, operation: bytes) -> int | None:
        async with self._reading() as connection:
            found: int | None = await connection.fetchval(
                "SELECT at_ms FROM account_debits WHERE operation = $1", operation
            )
        return found


def kept_from_text(kept_from_ms: int) -> str:
    return f"{datetime.fromtimestamp(kept_from_ms // 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"


def detached(kept_from_ms: int) -> Refusal:
    """Refuse what needs entries of a detached month."""
    return Refusal(Err.MONTH_DETACHED, f"entries are kept here from {kept_from_text(kept_from_ms)} on")
