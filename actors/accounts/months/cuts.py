"""Reads the cuts of the ledger: since when entries are kept, and what an account carried over.

Implements: decisions, "Detached months". The port, and PostgreSQL behind it. Reads alone: the role that owns the tables
writes them (detaching.py).
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from actors.accounts.listings import LedgerFilter
from actors.accounts.months.carried import COLUMNS, ENTRY_COLUMNS, Carried, carried_of
from actors.errors import Err, Refusal
from actors.times import iso_seconds

# The newest entries of an account, and its carried entry: the newest may be in a detached month. Both have it while the
# month's table still exists.
RECENT_ENTRIES = " UNION ".join(
    f"SELECT {ENTRY_COLUMNS}, hash FROM {table} WHERE pubkey = $1 AND at_ms >= $2"  # noqa: S608 - ours.
    for table in ("ledger", "ledger_carried")
)
RECENT_ENTRIES += " ORDER BY at_ms, seq"
_KEPT_FROM = "SELECT COALESCE(max(next_ms), 0) FROM ledger_cuts"
_CARRIED = f"SELECT {COLUMNS} FROM ledger_carried WHERE pubkey = $1"  # noqa: S608 - ours.


class CutsStore(Protocol):
    """Reads cuts. All methods raise StoreUnavailable."""

    async def kept_from_ms(self) -> int:
        """Return the first millisecond whose entries are in the ledger; 0: all are."""
        ...

    async def carried(self, pubkey: bytes) -> Carried | None:
        """Return what this account carried over the newest cut; None: it had no earlier entries."""
        ...

    async def debited_ms(self, operation: bytes) -> int | None:
        """Return the time of the debit of this operation, even in a detached month."""
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


async def kept_for(cuts: CutsStore, pubkey: bytes, wanted: LedgerFilter, is_empty: bool) -> int | Refusal:
    """Since when entries are kept, or the refusal where a listing asks for earlier ones. To be asked behind the
    listing, so that one that was whole then is never refused, and one that was not always is. is_empty: it found
    nothing."""
    kept_from_ms = await cuts.kept_from_ms()
    if not kept_from_ms:
        return 0
    if wanted.from_ms is not None and wanted.from_ms < kept_from_ms:
        return detached(kept_from_ms)
    if not is_empty:
        return kept_from_ms
    times = [wanted.before[0] if wanted.before else None, None if wanted.to_ms is None else wanted.to_ms - 1]
    if wanted.operation is not None and await cuts.carried(pubkey) is not None:
        # Whose it was is not known any more: not of an account that had no entries then.
        times.append(await cuts.debited_ms(wanted.operation))
    if any(at_ms is not None and at_ms < kept_from_ms for at_ms in times):
        return detached(kept_from_ms)
    return kept_from_ms


def detached(kept_from_ms: int) -> Refusal:
    """Refuse a request that needs entries of a detached month."""
    kept = f"entries are kept here from {iso_seconds(kept_from_ms)} on"
    return Refusal(
        Err.MONTH_DETACHED, f"{kept}; the operator of this service has older ones, and receipts of them, in exports"
    )
