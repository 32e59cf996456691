"""The prices of one list: those that everybody pays, or those of the accounts to which an operator gave the list.

Implements: decisions, "Price lists"; money rule 7. Pure. A price is a whole number of credits, rounded up, and no price
becomes zero. Not here: which account has which list (accounts/price_list.py).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from actors.calls import PUBLIC_PRICES
from actors.pricing_config import PricingConfig

PERCENT = 100


@dataclass(frozen=True, slots=True)
class PriceList:
    """name: PUBLIC_PRICES: of the public prices. methods: credits for methods, in place of the percentage."""

    name: str = PUBLIC_PRICES
    percent: int = PERCENT
    methods: Mapping[str, int] = field(default_factory=dict)

    def credits(self, name: str, public: int) -> int:
        """Return the price for this name with this public price; free methods stay free."""
        own = self.methods.get(name)
        return self.part(public) if own is None or not public else own

    def part(self, public: int) -> int:
        """Return the percentage of a public price."""
        return -(-public * self.percent // PERCENT)

    def built(self, name: str, fixed: int, public: int) -> int:
        """Return the price of a method with a fixed part and a further part. public: their sum at the public prices."""
        own = self.methods.get(name)
        return self.part(public) if own is None else own + self.part(public - fixed)

    def landing(self, name: str, landing: int, base: int) -> tuple[int, int]:
        """Return the two prices of a send: if it lands, and if not. The second is never above the first."""
        dearer = self.credits(name, landing)
        return dearer, min(self.part(base), dearer)


PUBLIC = PriceList()


def price_lists(pricing: PricingConfig) -> dict[str, PriceList]:
    """Return the lists of the settings by name, with the public one."""
    named = {
        name: PriceList(name, config.percent, MappingProxyType(dict(config.methods)))
        for name, config in pricing.lists.items()
    }
    return {PUBLIC_PRICES: PUBLIC, **named}
