"""Routes: which owner has which account, as far as a calling process knows.

Implements: design, "Owners, for every kind of actor"; money rule 5. Pure. Its knowledge may be outdated: an owner that
does not have a shard answers "ask again", and the owners' table is read again (client.py).
"""

from collections.abc import Sequence
from typing import Any

from actors.accounts.api import Command, shard_of_command
from actors.accounts.directory import ListAccounts
from actors.calls import ChargeRequest, HoldRequest, Proof, SettleRequest, StreamTime, WalletProof, shard_of_proof
from actors.units import VIRTUAL_SHARDS, shard_of

_READING = ("Read", "List", "Show", "Count", "Describe", "Identify")  # Names of commands that change nothing.


def may_be_asked_twice(command: Command[Any]) -> bool:
    """Return whether nothing goes wrong where an owner carries it out, and ends before it answers. The nonce of a
    wallet's proof would be found taken."""
    proof = getattr(command, "proof", None)
    return type(command).__name__.startswith(_READING) and not isinstance(proof, WalletProof)


class OwnerRoutes:
    """Until the table of the owners is known, every request goes to the first owner.

    first_turn: any number; it selects the owner with which round robin starts.
    """

    def __init__(self, first_turn: int = 0) -> None:
        self._turn = first_turn
        self._owners = [0] * VIRTUAL_SHARDS
        self.used = frozenset(self._owners)  # Owners that have a shard.
        self.are_read = False
        self._epochs: dict[int, int] = {}

    def of_account(self, pubkey: bytes) -> int:
        return self._owners[shard_of(pubkey)]

    def of_proof(self, proof: Proof) -> int:
        return self._owners[shard_of_proof(proof)]

    def of_command(self, command: Command[Any]) -> int:
        """Return the owner to ask. Lists of accounts, which any owner can read and which take long, go to all owners in
        turn."""
        shard = shard_of_command(command)
        if shard is not None:
            return self._owners[shard]
        if not isinstance(command, ListAccounts):
            return self._owners[0]
        self._turn += 1
        return sorted(self.used)[self._turn % len(self.used)]

    def of_request(self, request: Any) -> int | None:
        """Return the owner of a hot link request. None: the owner that it was sent to."""
        if isinstance(request, HoldRequest):
            return self.of_proof(request.proof)
        if isinstance(request, ChargeRequest):
            return self.of_account(request.settle.pubkey)
        return self.of_account(request.pubkey) if isinstance(request, SettleRequest | StreamTime) else None

    def update(self, owners: Sequence[int], epochs: Sequence[int]) -> set[int]:
        """Take the table of the owners (holders_store.RouteTable). Returns the owners that may have taken a shard
        since, even one that they had before."""
        if len(owners) != VIRTUAL_SHARDS:
            return set()
        gaining = {index for index in set(owners) if self._epochs.get(index) != epochs[index]}
        self._owners, self.used, self.are_read = list(owners), frozenset(owners), True
        self._epochs = dict(enumerate(epochs))
        return gaining
