"""Launches, trades and graduations of Meteora's bonding curve."""

import pytest

from actors.signals.families import meteora_dbc as dbc
from actors.signals.observations import WSOL, What, event, instruction
from tests.signals.made import bought, emitted, key, numbered, seen


@pytest.mark.parametrize("name", ["with_spl_token", "with_token2022", "with_token2022_transfer_hook"])
def test_a_launch_names_curve_coin_and_creator(name: str) -> None:
    """Facts, table of newPair: creator 2, base 3, quote 4, pool 5."""
    (found,) = seen(numbered(dbc.PROGRAM, instruction(f"initialize_virtual_pool_{name}"), put={4: WSOL}))
    assert (found.what, found.mint, found.complete) == (What.CREATED, key(3), False)
    assert found.accounts == (key(5), key(3), key(2))


def test_a_full_curve_takes_its_coin_from_the_swap() -> None:
    """The event of a full curve names no mint."""
    for name in ("EvtCurveComplete", None):
        record = event(name) if name else bytes.fromhex("3b2f6dcd0d1f2c9f")
        found = seen(numbered(dbc.PROGRAM, instruction("swap2"), put={8: WSOL}), emitted(dbc.PROGRAM, record))
        assert [(one.what, one.mint) for one in found] == [(What.TRADED, None), (What.GRADUATED, key(7))]


def test_swaps_and_migrations_are_read_at_their_positions() -> None:
    assert bought(dbc.PROGRAM, instruction("swap"), 3, 4).accounts == (key(2), key(99), key(9))
    for name, base in (("migrate_meteora_damm", 7), ("migration_damm_v2", 13)):
        (found,) = seen(numbered(dbc.PROGRAM, instruction(name), put={base + 1: WSOL}))
        assert (found.what, found.mint, found.accounts[-1]) == (What.GRADUATED, key(base), key(4))
