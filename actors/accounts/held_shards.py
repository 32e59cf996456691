"""The virtual shards of one owner: which ones it has, and which of them it serves now.

Implements: design, "Owners, for every kind of actor"; money rule 5 (one owner for each account).
Pure. Shards come and go while the owner runs (moving.py). The owner writes those that it has with its epoch. It does
not serve an arriving shard until it has everything that the former owner knew, and begins nothing new for a leaving
shard.
"""

from collections.abc import Iterable, Sequence

from actors.units import VirtualShard, shard_of


class HeldShards:
    """Shards of one owner. index: of this owner."""

    def __init__(self, index: int, shards: Iterable[VirtualShard]) -> None:
        self.index = index
        self.all: Sequence[VirtualShard] = tuple(sorted(shards))
        self._served = set(self.all)
        self.leaving: frozenset[VirtualShard] = frozenset()

    def serves(self, shard: VirtualShard) -> bool:
        """Return whether operations already begun for this shard may continue here."""
        return shard in self._served

    def has_account(self, pubkey: bytes) -> bool:
        return shard_of(pubkey) in self._served

    def admits(self, shard: VirtualShard) -> bool:
        """Return whether new operations may begin for this shard."""
        return shard in self._served and shard not in self.leaving

    def named_alone(self) -> set[VirtualShard]:
        """Return the shard that a write about no account names, if there is one: rather none that leaves, which may be
        another owner's by the time of the write."""
        staying = (shard for shard in self.all if shard not in self.leaving)
        named = next(staying, None if not self.all else self.all[0])
        return set() if named is None else {named}

    def missing(self, shards: Iterable[VirtualShard]) -> list[VirtualShard]:
        """Return those that this owner does not serve."""
        return sorted(set(shards) - self._served)

    # --- a move ---------------------------------------------------------------------------------------------------

    def leave(self, shards: Iterable[VirtualShard]) -> None:
        """Begin nothing new for these shards."""
        self.leaving |= frozenset(shards)

    def stay(self, shards: Iterable[VirtualShard]) -> None:
        """Serve these again: their move was given up before they were dropped."""
        self.leaving -= frozenset(shards)

    def drop(self, shards: Iterable[VirtualShard]) -> None:
        """These shards no longer belong to this owner."""
        gone = frozenset(shards)
        self.all = tuple(shard for shard in self.all if shard not in gone)
        self._served -= gone
        self.leaving -= gone

    def take(self, shards: Iterable[VirtualShard]) -> None:
        """These shards belong to this owner from now on, but are not served yet."""
        self.all = tuple(sorted({*self.all, *shards}))

    def serve(self, shards: Iterable[VirtualShard]) -> None:
        self._served |= set(shards)
