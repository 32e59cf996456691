"""Remembers the price list of each credential, as owners told it, so that calls are priced before their holds.

Implements: decisions, "Price lists". Pure. It is a guess that each hold verifies: the owner refuses ceilings of another
list (calls.OTHER_PRICES). An account that pays the public prices has no entry, and costs nothing here.

When full, the least recently told credential is forgotten; its next call needs a second hold.
"""

from collections.abc import Hashable

from actors.calls import PUBLIC_PRICES, KeyProof, Proof, SessionProof

REMEMBERED_MAX = 20_000


class ToldLists:
    """Belongs to one process. names: by credential; empty while no caller here has a list."""

    def __init__(self) -> None:
        self.names: dict[Hashable, str] = {}

    def of(self, proof: Proof) -> str:
        """Return the name of the last known list of this proof's account."""
        return self.names.get(_credential_of(proof), PUBLIC_PRICES)

    def learn(self, proof: Proof, name: str) -> None:
        """Remember the list that an owner told for the account of this proof."""
        credential = _credential_of(proof)
        self.names.pop(credential, None)
        if name != PUBLIC_PRICES:
            self.names[credential] = name
            if len(self.names) > REMEMBERED_MAX:
                del self.names[next(iter(self.names))]


def _credential_of(proof: Proof) -> Hashable:
    if type(proof) is KeyProof:
        return proof.key_hash
    return proof.token_hash if type(proof) is SessionProof else proof.pubkey  # type: ignore[union-attr]
