"""New pools and swaps of CPMM and CLMM."""

import pytest

from actors.signals.families import raydium_pools as pools
from actors.signals.observations import WSOL, instruction
from tests.signals.made import bought, key, numbered, seen


@pytest.mark.parametrize(
    ("program", "name", "pool", "first", "creator"),
    [
        (pools.CPMM, "initialize", 3, 4, 0),
        (pools.CPMM, "initialize_with_permission", 4, 5, 1),
        (pools.CLMM, "create_pool", 2, 3, 0),
    ],
)
def test_a_pools_coin_is_the_side_that_is_no_quote(
    program: bytes, name: str, pool: int, first: int, creator: int
) -> None:
    """Sides are sorted by address, so SOL may be either; discriminators are shared, so the program decides."""
    for sol in (first, first + 1):
        (found,) = seen(numbered(program, instruction(name), put={sol: WSOL}))
        coin = key(first + 1 if sol == first else first)
        assert (found.mint, found.accounts) == (coin, (key(pool), coin, key(creator)))


def test_a_swap_has_the_size_of_its_transfers() -> None:
    assert bought(pools.CPMM, instruction("swap_base_input"), 4, 5).accounts[0] == key(3)
    assert bought(pools.CPMM, instruction("swap_base_output"), 4, 5).accounts[-1] == key(0)
    assert bought(pools.CLMM, instruction("swap"), 3, 4).accounts[0] == key(2)
    assert bought(pools.CLMM, instruction("swap_v2"), 3, 4).accounts[0] == key(2)
