"""Stores which owner has which virtual shard. The port, and PostgreSQL behind it.

Implements: design, "Owners, for every kind of actor"; money rules 5 and 12. Decides nothing; accounts_adopt() in
functions.sql orders a move against the writes of both owners.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, NamedTuple, Protocol

from actors.accounts.held_shards import HeldShards
from actors.accounts.stored import Fenced, NotGiven
from actors.units import VIRTUAL_SHARDS, VirtualShard

_ADOPT_SECONDS = 8.0


class Giver(NamedTuple):
    """The owner that gave shards away, and the epoch of its last write. None: no owner gave them; nobody served
    them."""

    owner: int
    epoch: int | None


class RouteTable(NamedTuple):
    """owners: the index of the owner of each of the 1,024 shards; empty: no owner has started yet. epochs: of each
    owner by its index; it changes with each shard that the owner takes, even one that it already had."""

    owners: bytes = b""
    epochs: tuple[int, ...] = ()


class HoldersStore(Protocol):
    """Assigns shards to owners. All methods raise StoreUnavailable."""

    async def assigned(self, index: int, owners: int) -> list[VirtualShard]:
        """Return the shards of the owner with this index. owners: over how many owners to spread the shards that nobody
        had."""
        ...

    async def adopt(
        self, owner: str, index: int, epoch: int, mine: Sequence[VirtualShard], fresh: Sequence[VirtualShard], by: Giver
    ) -> int:
        """Assign `fresh` to this owner, in addition to its shards. Returns the next epoch, which holds for all of them.

        Raises Fenced when `mine` are not this owner's any more, NotGiven when `fresh` are not where their giver left
        them. After any other error the outcome is known only after the next take_over. When this returns, every write
        of an earlier epoch has either been made or never will be.
        """
        ...

    async def routes(self) -> RouteTable: ...


async def check_held(
    check_owner: Callable[[int, Sequence[VirtualShard]], Awaitable[int]], epoch: int, held: HeldShards
) -> int:
    """Return the store's time in Unix milliseconds. check_owner: of the store of accounts. Raises Fenced where a shard
    of this owner has another epoch. One that is given away while the question is on its way counts no more: its new
    owner may have given it another epoch by then."""
    while True:
        shards = held.all
        try:
            return await check_owner(epoch, shards)
        except Fenced:
            if held.all == shards:
                raise


class PostgresHoldersStore:
    def __init__(self, reading: Callable[[], AbstractAsyncContextManager[Any]]) -> None:
        self._reading = reading

    async def assigned(self, index: int, owners: int) -> list[VirtualShard]:
        async with self._reading() as connection:
            return list(await connection.fetchval("SELECT accounts_assigned($1, $2)", index, owners))

    async def adopt(
        self, owner: str, index: int, epoch: int, mine: Sequence[VirtualShard], fresh: Sequence[VirtualShard], by: Giver
    ) -> int:
        async with self._reading() as connection:
            taken = await connection.fetchval(
                "SELECT accounts_adopt($1, $2, $3, $4, $5, $6, $7)",
                *(owner, index, epoch, list(mine), list(fresh), *by),
                timeout=_ADOPT_SECONDS,
            )
        if taken is None:
            raise Fenced
        if taken == 0:
            raise NotGiven
        return int(taken)

    async def routes(self) -> RouteTable:
        async with self._reading() as connection:
            # A row for each holder: every process asks every two seconds, and 1,024 rows would take a millisecond each.
            rows = await connection.fetch(
                "SELECT holder, max(epoch), array_agg(virtual_shard) FROM shard_owner WHERE holder IS NOT NULL"
                " GROUP BY holder"
            )
        return route_table([(row[0], row[1], row[2]) for row in rows])


def route_table(rows: Sequence[tuple[int, int, Sequence[int]]]) -> RouteTable:
    """rows: of each holder its index, the highest epoch of its shards, and the shards."""
    if sum(len(shards) for _, _, shards in rows) != VIRTUAL_SHARDS:
        return RouteTable()
    epochs = [0] * (1 + max(holder for holder, _, _ in rows))
    owners = bytearray(VIRTUAL_SHARDS)
    for holder, epoch, shards in rows:
        epochs[holder] = epoch
        for shard in shards:
            owners[shard] = holder
    return RouteTable(bytes(owners), tuple(epochs))
