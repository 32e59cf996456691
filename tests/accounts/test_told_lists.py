"""What a replica remembers of price lists, by credential.

Rule: decisions, "Price lists".
"""

from actors.accounts import told_lists
from actors.accounts.told_lists import ToldLists
from actors.calls import KeyProof, ProvenProof, SessionProof, WalletProof

PUBKEY = b"p" * 32
PROOFS = (KeyProof(b"k" * 32, bytes(8)), SessionProof(b"t" * 32, bytes(8)), WalletProof(PUBKEY, "n", 0))


def test_each_credential_is_known_by_itself_and_public_prices_leave_nothing() -> None:
    told = ToldLists()
    for proof in PROOFS:
        assert told.of(proof) == ""
        told.learn(proof, "wholesale")
        assert told.of(proof) == "wholesale"
    assert told.of(ProvenProof(PUBKEY, 3)) == "wholesale"  # Of the same account as the wallet.
    for proof in PROOFS:
        told.learn(proof, "retail")
        told.learn(proof, "")
    assert told.names == {}


def test_when_full_the_oldest_is_forgotten(monkeypatch) -> None:
    """Its next call is asked twice, and costs the same."""
    monkeypatch.setattr(told_lists, "REMEMBERED_MAX", 2)
    told = ToldLists()
    for number in range(3):
        told.learn(ProvenProof(bytes([number]) * 32), "wholesale")
    told.learn(ProvenProof(bytes([1]) * 32), "retail")  # Told again: it is the newest now.
    told.learn(ProvenProof(bytes([9]) * 32), "wholesale")
    assert [told.of(ProvenProof(bytes([number]) * 32)) for number in (0, 1, 2, 9)] == ["", "retail", "", "wholesale"]
