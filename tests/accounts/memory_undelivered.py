"""The lists of undelivered charges, in memory.

Implements: undelivered_store.UndeliveredStore.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence

from actors.accounts.undelivered import Listed, Place
from actors.units import VirtualShard, shard_of


class MemoryUndelivered:
    """debits: the store's."""

    def __init__(self, debits: Mapping[bytes, bytes]) -> None:
        self._debits = debits
        self.lists: dict[tuple[int, bytes], tuple[int, int, bytes]] = {}  # (home, replica) to owners, epoch, counters.

    def write(self, epoch: int, place: Place, lists: Iterable[Listed]) -> None:
        for listed in lists:
            if self.lists.get((place.home, listed.replica), (0, 0))[1] <= epoch:
                self.lists[place.home, listed.replica] = place.owners, epoch, listed.counters

    async def recall(self, place: Place) -> list[Listed]:
        await asyncio.sleep(0)
        for (home, replica), (_, _, counters) in list(self.lists.items()):
            if home == place.home and not counters:
                del self.lists[home, replica]
        return [
            Listed(replica, counters)
            for (home, replica), (owners, _, counters) in self.lists.items()
            if counters and (home == place.home or owners != place.owners)
        ]

    async def find_charged(self, operations: Sequence[bytes], shards: Sequence[VirtualShard]) -> dict[bytes, bytes]:
        await asyncio.sleep(0)
        found = {operation: self._debits[operation] for operation in operations if operation in self._debits}
        return {operation: pubkey for operation, pubkey in found.items() if shard_of(pubkey) in shards}

    async def recall_all(self) -> list[Listed]:
        await asyncio.sleep(0)
        return [Listed(replica, counters) for (_, replica), (_, _, counters) in self.lists.items() if counters]

    async def remove(self, epoch: int, place: Place, shards: Sequence[VirtualShard], replica: bytes) -> None:
        await asyncio.sleep(0)
        for (home, name), (owners, written, _) in list(self.lists.items()):
            is_mine = (home, owners) == place or (owners != place.owners and home in shards)
            if is_mine and name == replica and written <= epoch:
                del self.lists[home, name]
