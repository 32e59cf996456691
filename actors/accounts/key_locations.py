"""Remembers which owner has the account of a legacy API key, for a process that asks the owners.

Implements: interface, "API key": 64 hexadecimal characters, imported by the operator. Pure.

A key of today's form begins with the routing bytes of its account; the bytes of a legacy key name any owner. The owner
that is asked first finds the key in the accounts table, whose unique index is the durable directory of all keys, and
names the account. That answer is kept here, so later calls go to the right owner at once.
"""

import msgspec

from actors.calls import KeyProof, Proof
from actors.units import routing_bytes

LOCATIONS_MAX = 10_000  # About 200 bytes each. Beyond this limit, calls with a key first ask the wrong owner.


class KeyLocations:
    """Only keys that exist are kept: made-up keys cannot fill it. Empty until a legacy key is used."""

    def __init__(self) -> None:
        self._routing: dict[bytes, bytes] = {}  # By hash of key; oldest first.
        self.are_known = False  # Whether there is one. An attribute, as each call asks.

    def __len__(self) -> int:
        return len(self._routing)

    def locate(self, proof: Proof) -> Proof:
        """Return the proof with the routing bytes of its account, where they are known."""
        routing = self._routing.get(proof.key_hash) if isinstance(proof, KeyProof) else None
        return proof if routing is None else msgspec.structs.replace(proof, routing=routing)

    def learn(self, proof: Proof, pubkey: bytes) -> bool:
        """Remember the account that an owner named for a key. Returns whether another owner has that account, so that
        the caller must ask it."""
        if not pubkey or not isinstance(proof, KeyProof):
            return False
        if proof.routing == routing_bytes(pubkey):
            return False
        self._routing.pop(proof.key_hash, None)
        self._routing[proof.key_hash] = routing_bytes(pubkey)
        self.are_known = True
        if len(self._routing) > LOCATIONS_MAX:
            del self._routing[next(iter(self._routing))]
        return True
