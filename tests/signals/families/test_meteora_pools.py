"""New pools and swaps of Meteora's three pool programs."""

import pytest

from actors.signals.families import meteora_pools as pools
from actors.signals.observations import WSOL, What, instruction
from tests.signals.made import bought, key, numbered, seen


@pytest.mark.parametrize(
    ("program", "name", "pool", "first"),
    [
        (pools.DAMM_V1, "initialize_permissionless_pool", 0, 2),
        (pools.DAMM_V1, "initialize_permissionless_constant_product_pool_with_config2", 0, 3),
        (pools.DAMM_V1, "initialize_customizable_permissionless_constant_product_pool", 0, 2),
        (pools.DAMM_V2, "initialize_pool", 6, 8),
        (pools.DAMM_V2, "initialize_customizable_pool", 5, 7),
        (pools.DAMM_V2, "initialize_pool_with_dynamic_config", 7, 9),
        (pools.DLMM, "initialize_lb_pair2", 0, 2),
        (pools.DLMM, "initialize_permission_lb_pair", 1, 3),
    ],
)
def test_a_new_pool_is_read_at_its_positions(program: bytes, name: str, pool: int, first: int) -> None:
    """Facts, table of newPair."""
    (found,) = seen(numbered(program, instruction(name), put={first + 1: WSOL}))
    assert (found.what, found.mint, found.accounts[0]) == (What.CREATED, key(first), key(pool))


def test_swaps_are_read_at_the_traders_accounts() -> None:
    assert bought(pools.DAMM_V1, instruction("swap"), 1, 2).accounts[-1] == key(12)
    assert bought(pools.DAMM_V2, instruction("swap2"), 2, 3).accounts[-1] == key(8)
    assert bought(pools.DLMM, instruction("swap"), 4, 5).accounts[-1] == key(10)
