"""New pools and swaps of Whirlpools."""

import pytest

from actors.signals.families import orca
from actors.signals.observations import WSOL, What, instruction
from tests.signals.made import bought, key, numbered, seen


@pytest.mark.parametrize(
    ("name", "pool"),
    [("initialize_pool", 4), ("initialize_pool_v2", 6), ("initialize_pool_with_adaptive_fee", 7)],
)
def test_a_new_pool_is_read_at_its_positions(name: str, pool: int) -> None:
    """Facts, table of newPair: mints 1 and 2."""
    (found,) = seen(numbered(orca.PROGRAM, instruction(name), put={1: WSOL}))
    assert (found.what, found.mint, found.accounts[0]) == (What.CREATED, key(2), key(pool))


def test_swaps_are_read_at_the_traders_accounts() -> None:
    assert bought(orca.PROGRAM, instruction("swap"), 3, 5).accounts == (key(2), key(99), key(1))
    assert bought(orca.PROGRAM, instruction("swap_v2"), 9, 7).accounts == (key(4), key(99), key(3))
