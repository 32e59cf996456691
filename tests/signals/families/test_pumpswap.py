"""Pools and trades of the AMM that graduated coins move to."""

import struct

import pytest
from solders.pubkey import Pubkey

from actors.launch_programs import pdas
from actors.signals.families import pumpswap
from actors.signals.observations import WSOL, What, event, instruction
from tests.signals.made import emitted, key, numbered, seen

CREATE = instruction("create_pool")


def test_a_users_pool_is_new_and_the_canonical_one_is_not() -> None:
    """Trap 8: the canonical pool is part of a graduation; a user's pool of the same coin is a new pair."""
    (mine,) = seen(numbered(pumpswap.PROGRAM, CREATE, put={4: WSOL}))
    assert (mine.what, mine.mint, mine.accounts) == (What.CREATED, key(3), (key(0), key(3), key(2)))
    authority = bytes(pdas.pool_authority(Pubkey.from_bytes(key(3))))
    assert seen(numbered(pumpswap.PROGRAM, CREATE, put={2: authority, 4: WSOL})) == []


@pytest.mark.parametrize(
    ("name", "reversed_pool", "is_buy", "lamports"),
    [("buy", False, True, 13), ("sell", False, False, 13), ("buy", True, False, 1), ("sell", True, True, 1)],
)
def test_the_sol_side_of_a_pool_may_be_its_base(name: str, reversed_pool: bool, is_buy: bool, lamports: int) -> None:
    """A real pool has base = WSOL and quote = the coin: buying its base sells the coin."""
    record = event("BuyEvent" if name == "buy" else "SellEvent") + struct.pack("<q13Q", 0, *range(1, 14))
    put = {3: WSOL} if reversed_pool else {4: WSOL}
    (found,) = seen(
        numbered(pumpswap.PROGRAM, instruction(name), put=put), emitted(pumpswap.PROGRAM, record + bytes(300))
    )
    assert (found.mint, found.is_buy, found.lamports) == (key(4 if reversed_pool else 3), is_buy, lamports)


def test_a_pool_without_sol_has_no_size_in_sol() -> None:
    record = event("BuyEvent") + struct.pack("<q13Q", 0, *range(1, 14))
    (found,) = seen(numbered(pumpswap.PROGRAM, instruction("buy")), emitted(pumpswap.PROGRAM, record))
    assert found.lamports is None
