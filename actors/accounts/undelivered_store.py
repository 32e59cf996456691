"""Reads the lists of undelivered charges that a former owner left. The port, and PostgreSQL behind it.

Implements: money rule 2; threat 66. Decides nothing. The lists are written with each group
(accounts_write() in functions.sql), so no charge waits longer for them; this code runs when an owner starts or a
replica has died.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from actors.accounts.ledger import EntryType
from actors.accounts.undelivered import Listed, Place
from actors.units import VirtualShard

_ASKED_MAX = 250  # Operations in one query.
# The ledger has no index on operations. Only accounts charged since then can have these entries, and the primary key
# finds an account's entries of a millisecond.
_FIND_CHARGED = (
    "SELECT l.operation_id, l.pubkey FROM accounts a JOIN LATERAL (SELECT e.operation_id, e.pubkey FROM ledger e"  # noqa: S608
    " WHERE e.pubkey = a.pubkey AND e.at_ms = ANY ($2::bigint[]) AND e.at_ms BETWEEN $3 AND $4"
    f" AND e.type = {EntryType.DEBIT:d} AND e.operation_id = ANY ($1::bytea[]) OFFSET 0) AS l ON true"
    " WHERE a.virtual_shard = ANY ($5::integer[]) AND a.last_ms >= $3"
)


class UndeliveredStore(Protocol):
    """Reads the lists. All methods raise StoreUnavailable."""

    async def recall(self, place: Place) -> list[Listed]:
        """Return the lists of a former owner of this place, and of owners from before their number changed. Removes
        empty ones.

        Call it after the takeover, so that no later write of the former owner can follow."""
        ...

    async def find_charged(self, operations: Sequence[bytes], shards: Sequence[VirtualShard]) -> dict[bytes, bytes]:
        """Return the account of each of these operations that was debited, among accounts of these virtual shards."""
        ...

    async def recall_all(self) -> list[Listed]:
        """Return the lists of all owners, for an owner of shards that nobody handed over. It ignores operations of
        other accounts."""
        ...

    async def remove(self, epoch: int, place: Place, shards: Sequence[VirtualShard], replica: bytes) -> None:
        """Remove a dead replica's lists of this place, and of owners from before whose first shard is one of these.
        Lists that a later owner wrote stay."""
        ...


class PostgresUndeliveredStore:
    def __init__(self, reading: Callable[[], AbstractAsyncContextManager[Any]]) -> None:
        self._reading = reading

    async def recall(self, place: Place) -> list[Listed]:
        async with self._reading() as connection:
            await connection.execute(
                "DELETE FROM account_edges WHERE home = $1 AND undelivered = ''::bytea", place.home
            )
            rows = await connection.fetch(
                "SELECT edge, undelivered FROM account_edges WHERE (home = $1 OR owners <> $2)"
                " AND undelivered <> ''::bytea",
                *place,
            )
        return [Listed(*row) for row in rows]

    async def find_charged(self, operations: Sequence[bytes], shards: Sequence[VirtualShard]) -> dict[bytes, bytes]:
        found: dict[bytes, bytes] = {}
        async with self._reading() as connection:
            debits = await connection.fetch(
                "SELECT operation, at_ms FROM account_debits WHERE operation = ANY ($1) ORDER BY at_ms", operations
            )
            for start in range(0, len(debits), _ASKED_MAX):
                some = debits[start : start + _ASKED_MAX]
                times = sorted({row["at_ms"] for row in some})
                names = [row["operation"] for row in some]
                rows = await connection.fetch(_FIND_CHARGED, names, times, times[0], times[-1], list(shards))
                found |= dict(map(tuple, rows))
        return found

    async def recall_all(self) -> list[Listed]:
        async with self._reading() as connection:
            rows = await connection.fetch("SELECT edge, undelivered FROM account_edges WHERE undelivered <> ''::bytea")
        return [Listed(*row) for row in rows]

    async def remove(self, epoch: int, place: Place, shards: Sequence[VirtualShard], replica: bytes) -> None:
        async with self._reading() as connection:
            await connection.execute(
                "DELETE FROM account_edges WHERE edge = $1 AND epoch <= $2"
                " AND (home = $3 AND owners = $4 OR owners <> $4 AND home = ANY ($5))",
                *(replica, epoch, *place, list(shards)),
            )
