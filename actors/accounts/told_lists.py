"""Remembers which price lists the owners of accounts told, by credential, so that calls are priced before their holds.

Implements: decisions, "Price lists". Pure. It is a guess that each hold verifies: the owner refuses ceilings of another
list (calls.OTHER_PRICES). An account that pays the public prices has no entry, and costs nothing here.

What happens when full: the credential that was told about longest ago is forgotten; its next call is asked twice.
"""

from collections.abc import Hashable

from actors.calls import PUBLIC_PRICES, KeyProof, Proof, SessionProof

REMEMBERED_MAX = 20_000


class ToldLists:
    """Belongs to one process. names: by credential; empty while no caller here has a list."""

    def __init__(self) -> None:
        self.names: dict[Hashable, str] = {}

    def of(self, proof: Proof) -> str:
        """The name of the list that the account of this proof had last."""
        return self.names.get(_credential_of(proof), PUBLIC_PRICES)

    def learn(self, proof: Proof, name: str) -> None:
        """Remember what an owner told of the account of this proof."""
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
