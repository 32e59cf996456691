"""The price list that an operator has given to an account: its name, and the event that sets it.

Implements: decisions, "Price lists". Pure. The owner knows only the name, by which replicas find prices: a hold with
ceilings of another list is refused, so a call costs what its account's list says at the time of its hold. Not here:
prices (methods/price_lists.py).
"""

import re

import msgspec

from actors.calls import PUBLIC_PRICES

PUBLIC_WORD = "public"  # Name of PUBLIC_PRICES for people and in documents; no list may have it.
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")


class PriceListSet(msgspec.Struct, frozen=True):
    """The account pays by this list from now on. name: PUBLIC_PRICES: the public prices."""

    name: str


def mistake_in_name(name: str) -> str | None:
    """Return a sentence on what is wrong with the name of a list, or None."""
    if name == PUBLIC_PRICES or (name != PUBLIC_WORD and _NAME.fullmatch(name)):
        return None
    return "a price list is named with 1 to 32 of a-z, 0-9 and -, begins with a letter or digit, and is not `public`"
