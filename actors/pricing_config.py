"""Settings of prices: those that everybody pays, and price lists for accounts to which an operator gives one.

Implements: decisions, "pricing" and "Price lists". Not here: which methods there are (methods/catalog.py), so the names
in a list are checked at start (launch/local_run/start_checks.py).
"""

import re
from typing import Annotated

from pydantic import Field, field_validator

from actors.provider_config import Branch

LISTS_MAX = 100  # Each replica makes the prices of all its methods by each list when it starts.
# In percent of the public price: the dearest event of a stream then still costs less than a stream holds ahead.
PERCENT_MAX = 1_000
CREDITS_MAX = 1_000_000
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")
_Credits = Annotated[int, Field(strict=True, ge=1, le=CREDITS_MAX)]


class PriceListConfig(Branch):
    """methods: by their names in GET /pricing and the ledger."""

    percent: int = Field(
        100, strict=True, ge=1, le=PERCENT_MAX, description="prices in percent of the public ones, rounded up"
    )
    methods: dict[str, _Credits] = Field({}, description="credits for methods, in place of that percentage")


class PricingConfig(Branch):
    landing_credits: int = Field(50, ge=1, le=10**9, description="price of a sendAndConfirm that landed")
    base_credits: int = Field(2, ge=1, le=10**9, description="price of a sendAndConfirm that did not land")
    cached_percent: int = Field(
        50, ge=1, le=100, description="price of an answer from the cache, in percent of its method's; at least 1 credit"
    )
    build_credits: int = Field(25, ge=1, le=10**9, description="fixed part of the price of a built trade")
    trade_bps: int = Field(50, ge=0, le=10_000, description="added part of a trade's SOL, in 1/100 of a percent")
    lists: dict[str, PriceListConfig] = Field(
        {},
        max_length=LISTS_MAX,
        description="price lists by name: percent, methods; an operator gives them to accounts",
    )

    @field_validator("lists")
    @classmethod
    def _have_names(cls, lists: dict[str, PriceListConfig]) -> dict[str, PriceListConfig]:
        for name in lists:
            if not _NAME.fullmatch(name) or name == "public":
                raise ValueError(
                    f"{name!r} cannot name a price list: wanted 1 to 32 of a-z, 0-9 and -, a letter or digit first; "
                    "`public` stands for the public prices"
                )
        return lists
