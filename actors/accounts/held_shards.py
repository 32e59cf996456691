"""The virtual shards of one owner: which it has, and whose accounts it serves just now.

Implements: design, "Owners, for every kind of actor"; money rule 5 (one owner for each account).
Pure. Shards come and go while the owner runs (moving.py). Those that it has are written with its epoch. Of these it
does not serve the ones that come, until all that their former owner knew is here, nor begin anything new for the ones
that leave.
"""

from collections.abc import Iterable, Sequence

from actors.units import VirtualShard, shard_of


class HeldShards:
    """index: of the owner among all owners."""

    def __init__(self, index: int, shards: Iterable[VirtualShard]) -> None:
        self.index = index
        self.all: Sequence[VirtualShard] = tuple(sorted(shards))
        self._served = set(self.all)
        self.leaving: frozenset[VirtualShard] = frozenset()

    def serves(self, shard: VirtualShard) -> bool:
        """Whether what was begun for this shard may be continued here."""
        return shard in self._served

    def has_account(self, pubkey: bytes) -> bool:
        return shard_of(pubkey) in self._served

    def admits(self, shard: VirtualShard) -> bool:
        """Whether something new may begin for this shard."""
        return shard in self._served and shard not in self.leaving

    def missing(self, shards: Iterable[VirtualShard]) -> list[VirtualShard]:
        """Return those that this owner does not serve."""
        return sorted(set(shards) - self._served)

    # --- a move ---------------------------------------------------------------------------------------------------

    def leave(self, shards: Iterable[VirtualShard]) -> None:
        """Begin nothing new for these."""
        self.leaving |= frozenset(shards)

    def stay(self, shards: Iterable[VirtualShard]) -> None:
        """The move of these was given up before they were dropped."""
        self.leaving -= frozenset(shards)

    def drop(self, shards: Iterable[VirtualShard]) -> None:
        """These are no longer this owner's to serve or to write."""
        gone = frozenset(shards)
        self.all = tuple(shard for shard in self.all if shard not in gone)
        self._served -= gone
        self.leaving -= gone

    def take(self, shards: Iterable[VirtualShard]) -> None:
        """These are this owner's to write, and not served yet."""
        self.all = tuple(sorted({*self.all, *shards}))

    def serve(self, shards: Iterable[VirtualShard]) -> None:
        self._served |= set(shards)
