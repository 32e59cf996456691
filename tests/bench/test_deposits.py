"""The payments of the deposit bench: as many transactions as deposits."""

from typing import Any

from solders.hash import Hash
from solders.keypair import Keypair

from bench.deposits import Payers


def test_payments_of_one_wallet_under_one_blockhash_differ() -> None:
    """A node takes equal transactions for one, and the bench then misses the credits of the second."""
    session: Any = None  # Signing asks no node.
    payers = Payers(session, "http://127.0.0.1:1", 2, Keypair().pubkey())
    blockhash = Hash.new_unique()
    assert len({payers.signed(number, blockhash).signatures[0] for number in range(60)}) == 60
