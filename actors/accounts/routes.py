"""Which owner has which account, as a process that asks the owners knows it.

Implements: design, "Owners, for every kind of actor"; money rule 5. Pure. What it knows may be old: an owner that does
not have a shard answers "ask again", and the owners' table is read again (client.py).
"""

from collections.abc import Sequence
from typing import Any

from actors.accounts.api import Command, shard_of_command
from actors.accounts.directory import ListAccounts
from actors.calls import ChargeRequest, HoldRequest, Proof, SettleRequest, StreamTime, shard_of_proof
from actors.units import VIRTUAL_SHARDS, shard_of


class OwnerRoutes:
    """All accounts are looked for at the first owner until the table of the owners is known.

    first_turn: any number; which owner is the first one of those that are asked in turn.
    """

    def __init__(self, first_turn: int = 0) -> None:
        self._turn = first_turn
        self._owners = [0] * VIRTUAL_SHARDS
        self.used = frozenset(self._owners)  # The owners that have a shard.
        self.are_read = False
        self._epochs: dict[int, int] = {}

    def of_account(self, pubkey: bytes) -> int:
        return self._owners[shard_of(pubkey)]

    def of_proof(self, proof: Proof) -> int:
        return self._owners[shard_of_proof(proof)]

    def of_command(self, command: Command[Any]) -> int:
        """Lists of accounts, which any owner reads and which take long, go to all owners in turn."""
        shard = shard_of_command(command)
        if shard is not None:
            return self._owners[shard]
        if not isinstance(command, ListAccounts):
            return self._owners[0]
        self._turn += 1
        return sorted(self.used)[self._turn % len(self.used)]

    def of_request(self, request: Any) -> int | None:
        """Return the owner that a request of the hot link is for. None: it is for the owner that it was sent to."""
        if isinstance(request, HoldRequest):
            return self.of_proof(request.proof)
        if isinstance(request, ChargeRequest):
            return self.of_account(request.settle.pubkey)
        return self.of_account(request.pubkey) if isinstance(request, SettleRequest | StreamTime) else None

    def update(self, owners: Sequence[int], epochs: Sequence[int]) -> set[int]:
        """Take what the owners' table says, as holders_store.RouteTable has it. Returns the owners that may have taken
        a shard meanwhile, if only back."""
        if len(owners) != VIRTUAL_SHARDS:
            return set()
        gaining = {index for index in set(owners) if self._epochs.get(index) != epochs[index]}
        self._owners, self.used, self.are_read = list(owners), frozenset(owners), True
        self._epochs = dict(enumerate(epochs))
        return gaining
