"""Kinds of assets, and pages."""

import pytest

from actors.lookups.assets import asset, by_mint, kind_of, page_of
from actors.lookups.holdings import Holding, Mint


def held(mint: str, amount: int, account: str = "a", decimals: int | None = 0) -> Holding:
    return Holding(mint, account, "program", amount, decimals, str(amount), False, None)


@pytest.mark.parametrize(
    ("decimals", "supply", "kind"),
    [
        (0, 1, "non_fungible"),
        (0, 2, "fungible"),
        (6, 1, "fungible"),
        (6, None, "fungible"),
        (0, None, None),
        (None, 1, None),
    ],
)
def test_one_indivisible_token_is_one_of_a_kind(decimals, supply, kind):
    """An unknown kind is null."""
    assert kind_of(decimals, supply) == kind


def test_accounts_of_one_mint_are_one_asset_and_empty_ones_are_none():
    """An account without tokens holds no asset."""
    grouped = by_mint([held("m", 2, "b"), held("l", 1), held("m", 3, "a"), held("k", 0)])
    assert {mint: [one.token_account for one in rows] for mint, rows in grouped.items()} == {
        "l": ["a"],
        "m": ["a", "b"],
    }
    assert asset("m", grouped["m"], Mint(5, 0)) == {
        "id": "m",
        "kind": "fungible",
        "token_program": "program",
        "amount": "5",
        "decimals": 0,
        "supply": "5",
        "token_accounts": [
            {"address": "a", "amount": "3", "ui_amount_string": "3", "frozen": False, "delegate": None},
            {"address": "b", "amount": "2", "ui_amount_string": "2", "frozen": False, "delegate": None},
        ],
    }


def test_without_its_mint_an_asset_says_less():
    """The supply is null, and so is the kind where it depends on the supply."""
    row = asset("m", [held("m", 1)], None)
    assert (row["supply"], row["kind"], row["decimals"]) == (None, None, 0)


def test_pages_are_stable_cuts_of_all_mints():
    """Each mint is on one page, and the total is of all pages."""
    grouped = by_mint([held(f"m{number}", 1) for number in (3, 1, 2)])
    assert page_of(grouped, 1, 2).mints == ("m1", "m2")
    assert page_of(grouped, 2, 2).mints == ("m3",)
    assert page_of(grouped, 3, 2).mints == ()
    assert page_of(grouped, 2, 2).total == 3
