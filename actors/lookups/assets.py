"""The tokens of an owner, grouped by mint: their kind, and one page of them as clients see it.

Implements: getAssetsByOwner with what a plain node has (no metadata, no collections, no compressed assets).
Pure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from actors.lookups.holdings import Holding, Mint


@dataclass(frozen=True, slots=True)
class AssetPage:
    mints: tuple[str, ...]
    total: int


def by_mint(holdings: Sequence[Holding]) -> dict[str, list[Holding]]:
    """Group token accounts that are not empty by mint. Mints are sorted by their text, so that pages are stable."""
    grouped: dict[str, list[Holding]] = {}
    for holding in sorted(holdings, key=lambda held: (held.mint, held.token_account)):
        if holding.amount:
            grouped.setdefault(holding.mint, []).append(holding)
    return grouped


def page_of(grouped: Mapping[str, Sequence[Holding]], page: int, limit: int) -> AssetPage:
    mints = tuple(grouped)
    return AssetPage(mints[(page - 1) * limit : page * limit], len(mints))


def kind_of(decimals: int | None, supply: int | None) -> str | None:
    """Classify a mint. `non_fungible`: no decimals and a supply of one. None: not known."""
    if decimals is None:
        return None
    if decimals > 0:
        return "fungible"
    if supply is None:
        return None
    return "non_fungible" if supply == 1 else "fungible"


def asset(mint: str, held: Sequence[Holding], known: Mint | None) -> dict[str, Any]:
    """Build one element of `items`. known: the mint's decimals and supply, where the node has the mint."""
    decimals = known.decimals if known is not None else held[0].decimals
    supply = None if known is None else known.supply
    return {
        "id": mint,
        "kind": kind_of(decimals, supply),
        "token_program": held[0].program,
        "amount": str(sum(holding.amount for holding in held)),
        "decimals": decimals,
        "supply": None if supply is None else str(supply),
        "token_accounts": [
            {
                "address": holding.token_account,
                "amount": str(holding.amount),
                "ui_amount_string": holding.ui_amount_string,
                "frozen": holding.frozen,
                "delegate": holding.delegate,
            }
            for holding in held
        ],
    }
