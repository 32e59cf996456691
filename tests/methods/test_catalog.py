"""The method table keeps what billing relies on. Equality with the interface's table is in tests/tidy."""

import dataclasses

import pytest

from actors.methods import catalog, prices
from actors.methods.catalog import METHODS
from actors.units import Credits


def test_the_table_is_fit_to_start_with() -> None:
    """Threat 37: no callable method without a price."""
    catalog.check()


@pytest.mark.parametrize("credits", [None, 0, -1, 1.5])
def test_a_method_that_would_be_free_keeps_the_service_from_starting(
    monkeypatch: pytest.MonkeyPatch, credits: object
) -> None:
    """Threat 37: a missing, zero, negative or fractional price is refused."""
    broken = dataclasses.replace(METHODS["getSlot"], credits=credits)  # type: ignore[arg-type]
    monkeypatch.setattr(catalog, "_TABLE", (broken,))
    monkeypatch.setattr(catalog, "METHODS", {"getSlot": broken})
    with pytest.raises(AssertionError, match="getSlot"):
        catalog.check()


@pytest.mark.parametrize("credits", [None, 0, -1, 1.5])
def test_a_bulk_look_up_that_would_be_free_keeps_the_service_from_starting(
    monkeypatch: pytest.MonkeyPatch, credits: object
) -> None:
    """Threat 37, for what is priced by the item."""
    broken = dataclasses.replace(prices.BULK[0], credits_per_item=credits)  # type: ignore[arg-type]
    monkeypatch.setattr(prices, "BULK", (broken,))
    with pytest.raises(AssertionError, match="bulk/getBalances"):
        catalog.check()


def test_a_method_listed_twice_keeps_the_service_from_starting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two rows would mean two prices."""
    monkeypatch.setattr(catalog, "_TABLE", (METHODS["getSlot"], METHODS["getSlot"]))
    monkeypatch.setattr(catalog, "METHODS", {"getSlot": METHODS["getSlot"]})
    with pytest.raises(AssertionError, match="twice"):
        catalog.check()


def test_the_table_cannot_be_changed() -> None:
    """A price must not change in the middle of a run."""
    with pytest.raises(TypeError):
        METHODS["free"] = METHODS["getSlot"]  # type: ignore[index]
    with pytest.raises(dataclasses.FrozenInstanceError):
        METHODS["getSlot"].credits = Credits(0)  # type: ignore[misc]
