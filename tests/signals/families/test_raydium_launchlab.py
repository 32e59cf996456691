"""Launches, trades and graduations of LaunchLab."""

import struct

import pytest

from actors.signals.families import raydium_launchlab as launchlab
from actors.signals.observations import WSOL, What, event, instruction
from tests.signals.made import emitted, key, numbered, seen


@pytest.mark.parametrize("name", ["initialize", "initialize_v2", "initialize_with_token_2022"])
def test_a_launch_names_curve_coin_and_creator(name: str) -> None:
    """Facts, table of newPair: creator 1, pool 5, base 6, quote 7."""
    (found,) = seen(numbered(launchlab.PROGRAM, instruction(name), put={7: WSOL}))
    assert (found.what, found.mint, found.complete, found.curve_type) == (What.CREATED, key(6), False, None)
    assert found.accounts == (key(5), key(6), key(1))


@pytest.mark.parametrize("newer", [False, True])
@pytest.mark.parametrize(("name", "amount"), [("buy_exact_in", 8), ("sell_exact_out", 9)])
def test_a_trade_has_its_quote_amount_and_may_fill_the_curve(newer: bool, name: str, amount: int) -> None:
    """Newer events have one more number; status 1 is a full curve."""
    for status in (0, 1, 2):
        numbers = range(1, 14 if newer else 13)
        record = event("TradeEvent") + bytes(32) + struct.pack(f"<{len(numbers)}Q", *numbers) + bytes([0, status, 1])
        found = seen(numbered(launchlab.PROGRAM, instruction(name), put={10: WSOL}), emitted(launchlab.PROGRAM, record))
        assert (found[0].lamports, found[0].is_buy, found[0].mint) == (amount, name.startswith("buy"), key(9))
        assert [one.what for one in found[1:]] == ([What.GRADUATED] if status == 1 else [])


def test_both_migrations_of_a_launch_are_graduations() -> None:
    for name, launch, pool in (("migrate_to_amm", 23, 13), ("migrate_to_cpswap", 17, 5)):
        (found,) = seen(numbered(launchlab.PROGRAM, instruction(name), put={2: WSOL}))
        assert (found.what, found.accounts) == (What.GRADUATED, (key(launch), key(1), key(pool)))
