"""Discriminators equal the documented ones; which side of a pool is the coin."""

import pytest

from actors.signals.observations import WSOL, ZERO_KEY, coin_and_quote, event, instruction, u64
from actors.signals.transaction import key_text
from tests.signals.made import key


@pytest.mark.parametrize(
    ("found", "documented"),
    [
        (instruction("create_pool"), "e992d18ecf6840bc"),
        (instruction("token_mint"), "032ca4b87b0df5b3"),
        (instruction("initialize_virtual_pool_with_token2022_transfer_hook"), "b60de9b12a918702"),
        (instruction("migrate_funds"), "2ae50ae7bd3ec1ae"),
        (instruction("migrate_to_cpswap"), "885cc8671cda908c"),
        (event("TradeEvent"), "bddb7fd34ee661ee"),
        (event("SellEvent"), "3e2f370aa503dc2a"),
    ],
)
def test_a_discriminator_is_the_hash_of_its_name(found: bytes, documented: str) -> None:
    """The documented bytes."""
    assert found.hex() == documented


def test_the_coin_is_the_side_that_is_no_quote() -> None:
    """Both or neither a known quote: the first side."""
    assert coin_and_quote(WSOL, key(1)) == (key(1), key_text(WSOL))
    assert coin_and_quote(key(1), WSOL) == (key(1), key_text(WSOL))
    assert coin_and_quote(key(1), key(2)) == (key(1), key_text(key(2)))
    assert coin_and_quote(WSOL, ZERO_KEY)[0] == WSOL
    assert coin_and_quote(None, None) == (None, None)


def test_a_number_beyond_the_data_is_none() -> None:
    assert u64(bytes(8), 0) == 0
    assert u64(bytes(8), 1) is None
