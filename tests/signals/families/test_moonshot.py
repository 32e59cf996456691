"""Launches, trades and graduations of Moonshot."""

from actors.signals.classify import observe
from actors.signals.families import moonshot
from actors.signals.observations import SOL, What, instruction
from tests.signals import samples
from tests.signals.made import key, numbered, seen

BUY = instruction("buy")


def test_a_trades_size_is_the_curves_change() -> None:
    """Known for one trade of a curve in a transaction; of two, neither size is."""
    lamports = {key(2): (100, 4_100)}
    one = numbered(moonshot.PROGRAM, BUY)
    (found,) = observe(samples.of_instructions([one], lamports=lamports))
    assert (found.mint, found.quote_asset, found.is_buy, found.lamports) == (key(6), SOL, True, 4_000)
    both = list(observe(samples.of_instructions([one, one], lamports=lamports)))
    assert [each.lamports for each in both] == [None, None]


def test_launch_and_migration_are_read_at_their_positions() -> None:
    (new,) = seen(numbered(moonshot.PROGRAM, instruction("token_mint")))
    assert (new.what, new.mint, new.accounts) == (What.CREATED, key(3), (key(2), key(3), key(0)))
    (moved,) = seen(numbered(moonshot.PROGRAM, instruction("migrate_funds")))
    assert (moved.what, moved.mint) == (What.GRADUATED, key(5))
