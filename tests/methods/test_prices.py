"""What a class costs. Equality with the interface's table is in tests/tidy."""

from actors.methods.catalog import METHODS
from actors.methods.prices import CLASSES
from actors.units import Credits


def test_prices_are_whole_credits_of_the_class() -> None:
    """One price list: a method costs what its class costs."""
    for row in METHODS.values():
        assert row.credits == CLASSES[row.method_class].credits
        assert row.credits is None or type(row.credits) is int
    assert METHODS["getBlock"].credits == Credits(25)
