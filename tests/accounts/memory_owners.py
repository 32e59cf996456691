"""Epoch and owner of each shard, in memory."""

from collections.abc import Sequence

from actors.units import VirtualShard


class MemoryOwners:
    def __init__(self) -> None:
        self._owners: dict[VirtualShard, tuple[int, str]] = {}
        self._epoch = 0

    def of(self, shard: VirtualShard) -> tuple[int, str]:
        return self._owners.get(shard, (0, ""))

    def take(self, shards: Sequence[VirtualShard], owner: str) -> int:
        self._epoch += 1
        self._owners |= dict.fromkeys(shards, (self._epoch, owner))
        return self._epoch
