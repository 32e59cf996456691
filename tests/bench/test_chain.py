"""The payments of measurements: each a transaction of its own that the block engine takes."""

from typing import Any

from solders.hash import Hash

from actors.addresses import TIP_ACCOUNTS
from actors.methods.signed_transactions import signed_transaction
from bench.chain import Payer


def test_payments_under_one_blockhash_differ_and_tip() -> None:
    session: Any = None  # Signing asks no node.
    payer, blockhash = Payer(session, "http://127.0.0.1:1"), str(Hash.new_unique())
    made = [signed_transaction(payer.signed(blockhash, price)) for price in (0, 0, 7, 7)]
    assert len({one.signature for one in made}) == 4
    assert all(one.writes_one_of(TIP_ACCOUNTS) for one in made)
