"""Swaps by their transfers: what cannot be established is None."""

import pytest

from actors.addresses import USDC_MAINNET_MINT
from actors.signals.families.orca import PROGRAM
from actors.signals.observations import WSOL, Observation, instruction
from actors.signals.transaction import known_key
from tests.signals.made import key, numbered, seen, transfer

USDC, COIN, OTHER = known_key(USDC_MAINNET_MINT), key(99), key(98)
IN, OUT, VAULT_A, VAULT_B = key(3), key(5), key(4), key(6)


def _swap(paid: bytes, got: bytes) -> Observation:
    (found,) = seen(
        numbered(PROGRAM, instruction("swap")), transfer(IN, VAULT_A, paid, 10), transfer(VAULT_B, OUT, got, 20)
    )
    return found


@pytest.mark.parametrize(
    ("paid", "got", "mint", "is_buy", "lamports"),
    [
        (WSOL, COIN, COIN, True, 10),
        (COIN, WSOL, COIN, False, 20),
        (USDC, COIN, COIN, True, None),
        (WSOL, USDC, USDC, True, 10),
        (COIN, OTHER, None, None, None),
    ],
)
def test_coin_direction_and_size_of_a_swap(
    paid: bytes, got: bytes, mint: bytes | None, is_buy: bool | None, lamports: int | None
) -> None:
    """Facts, 4.1 (the coin is the side that is no known quote) and 4.5; unknown is None, never a guess."""
    found = _swap(paid, got)
    assert (found.mint, found.is_buy, found.lamports) == (mint, is_buy, lamports)


def test_transfers_of_others_are_not_of_the_trader() -> None:
    """A fee from vault to treasury counts on neither side; two coins on one side are not understood."""
    swap = numbered(PROGRAM, instruction("swap"))
    paid, got = transfer(IN, VAULT_A, WSOL, 10), transfer(VAULT_B, OUT, COIN, 20)
    (with_fee,) = seen(swap, paid, transfer(VAULT_A, key(90), WSOL, 3), got)
    assert with_fee.lamports == 10
    (mixed,) = seen(swap, paid, transfer(IN, VAULT_A, OTHER, 1), got)
    assert (mixed.mint, mixed.lamports) == (None, None)
