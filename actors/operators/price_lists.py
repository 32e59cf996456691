"""/operator/price-lists and the price list of one account; and whether accounts have a list that the settings lack.

Implements: decisions, "Price lists" and "The operators' page". A shell: the account's owner keeps the name of its list,
asked with the same command as by `ledger-gateway accounts price`.
"""

import logging
from collections.abc import Mapping
from typing import Any

from actors.accounts.api import AccountState, OwnersClient
from actors.accounts.price_list import PUBLIC_WORD
from actors.accounts.price_list_commands import CountPriceLists, SetPriceList
from actors.background import Background
from actors.calls import PUBLIC_PRICES
from actors.errors import Err, Refusal
from actors.operators import bodies
from actors.operators.asking import asked, change_of
from actors.operators.ports import OperatorParts
from actors.pages import Page, PageAnswer, PageRequest, json_answer
from actors.pricing_config import PriceListConfig, PricingConfig
from actors.telemetry.metrics import Metrics
from actors.units import base58_text

logger = logging.getLogger(__name__)

LOOK_SECONDS = 60.0


class PriceListPages:
    def __init__(self, parts: OperatorParts) -> None:
        self._accounts, self._account_body, self._lists = parts.accounts, parts.account_body, parts.pricing.lists

    def pages(self) -> list[Page]:
        return [
            Page("GET", "/operator/price-lists", self._list, for_operators=True),
            Page("POST", "/operator/accounts/{pubkey}/price-list", self._give, for_operators=True),
        ]

    async def _list(self, request: PageRequest) -> PageAnswer | Refusal:
        chosen = bodies.chosen(request.query)
        if isinstance(chosen, Refusal):
            return chosen
        counted = await asked(self._accounts, CountPriceLists())
        if isinstance(counted, Refusal):
            return counted
        return json_answer({"ok": True, "price_lists": price_lists_body(self._lists, counted)})

    async def _give(self, request: PageRequest) -> PageAnswer | Refusal:
        change = change_of(request, bodies.GivenList)
        if isinstance(change, Refusal):
            return change
        pubkey, wanted = change
        mistake = mistake_in_list(wanted.name, self._lists)
        if mistake is not None:
            return Refusal(Err.INVALID_REQUEST, mistake)
        name = PUBLIC_PRICES if wanted.name == PUBLIC_WORD else wanted.name
        state: AccountState | Refusal = await asked(self._accounts, SetPriceList(pubkey, name))
        if isinstance(state, Refusal):
            return state
        logger.warning("operator: account %s: price list %s", base58_text(pubkey), wanted.name)
        return json_answer({"ok": True, "account": self._account_body(state)})


class PriceListWatch:
    """Checks from time to time for lists that accounts have and the settings lack; those accounts pay the public
    prices."""

    def __init__(self, accounts: OwnersClient, pricing: PricingConfig, metrics: Metrics) -> None:
        self._accounts, self._lists = accounts, pricing.lists
        self.unknown: frozenset[str] = frozenset()
        self._background = Background(logger, "counting price lists failed")
        text = "Price lists that accounts have and the settings lack; these accounts pay the public prices."
        metrics.watch("price_lists_unknown", text, lambda: len(self.unknown))

    def start(self) -> None:
        self._background.start(self.look())
        self._background.repeat(self.look, LOOK_SECONDS)

    async def stop(self) -> None:
        await self._background.stop()

    async def look(self) -> None:
        """Check once. If no owner answers, the last result stays."""
        counted = await asked(self._accounts, CountPriceLists())
        if isinstance(counted, Refusal):
            return
        before, self.unknown = self.unknown, frozenset(counted).difference(self._lists)
        if self.unknown != before:
            names = ", ".join(sorted(self.unknown))
            logger.warning("price lists that accounts have and pricing.lists lacks: %s", names or "none any more")


def mistake_in_list(name: str, lists: Mapping[str, PriceListConfig]) -> str | None:
    """Return a sentence on why accounts cannot get this list, or None."""
    if name == PUBLIC_WORD or name in lists:
        return None
    there = ", ".join(sorted(lists)) or "none"
    return f"pricing.lists of the settings has no list of this name; it has {there}, and there is `{PUBLIC_WORD}`"


def price_lists_body(lists: Mapping[str, PriceListConfig], counted: Mapping[str, int]) -> list[dict[str, Any]]:
    """Return the lists of the settings, and those that accounts have and the settings lack. counted: accounts by
    list."""
    return [
        {
            "name": name,
            "percent": lists[name].percent if name in lists else None,
            "methods": dict(lists[name].methods) if name in lists else None,
            "in_settings": name in lists,
            "accounts": counted.get(name, 0),
        }
        for name in sorted({*lists, *counted})
    ]
