"""Which owner has which shard, in memory.

Implements: holders_store.HoldersStore.
"""

import asyncio
from collections.abc import Mapping, Sequence

from actors.accounts.holders_store import Giver, RouteTable, route_table
from actors.accounts.stored import Fenced, NotGiven
from actors.units import VIRTUAL_SHARDS, VirtualShard
from tests.accounts.memory_owners import MemoryOwners


class MemoryHolders:
    def __init__(self, owners: MemoryOwners) -> None:
        self._owners = owners
        self.holders: dict[VirtualShard, int] = {}

    async def assigned(self, index: int, owners: int) -> list[VirtualShard]:
        await asyncio.sleep(0)
        for number in range(VIRTUAL_SHARDS):
            self.holders.setdefault(VirtualShard(number), number * owners // VIRTUAL_SHARDS)
        return sorted(shard for shard, holder in self.holders.items() if holder == index)

    async def adopt(
        self, owner: str, index: int, epoch: int, mine: Sequence[VirtualShard], fresh: Sequence[VirtualShard], by: Giver
    ) -> int:
        await asyncio.sleep(0)
        if any(self._owners.of(shard)[0] != epoch for shard in mine):
            raise Fenced
        for shard in fresh:
            if self.holders.get(shard) != by.owner or by.epoch not in (None, self._owners.of(shard)[0]):
                raise NotGiven
        self.holders |= dict.fromkeys(fresh, index)
        return self._owners.take([*mine, *fresh], owner)

    async def routes(self) -> RouteTable:
        await asyncio.sleep(0)
        return route_table(
            by_holder({shard: (self.holders[shard], self._owners.of(shard)[0]) for shard in self.holders})
        )


def by_holder(shards: Mapping[int, tuple[int, int]]) -> list[tuple[int, int, list[int]]]:
    """Return what the database answers. shards: holder and epoch of each shard."""
    return [
        (holder, max(shards[shard][1] for shard in mine), mine)
        for holder in {holder for holder, _ in shards.values()}
        if (mine := [shard for shard, (other, _) in shards.items() if other == holder])
    ]
