"""The ways in which operations of an account end.

Implements: money rules 1 and 2. Pure.
"""

from enum import IntEnum, unique
from functools import lru_cache
from typing import NamedTuple

from actors.accounts.ledger import Entry
from actors.accounts.named_keys import DAY_MS
from actors.calls import split_key


@unique
class End(IntEnum):
    """How an operation ended. The numbers are not stored."""

    POSTED = 0
    RELEASED = 1
    VOIDED = 2  # Costs nothing for good: released or refunded; a late settle is refused.


class Ended(NamedTuple):
    """An ended operation. key: number of the named key that pays, or 0. day: on which it counts as spent
    (named_keys.py)."""

    end: End
    method: str = ""
    parcels: str = ""
    key: int = 0
    day: int = 0


RELEASED = Ended(End.RELEASED)
VOIDED = Ended(End.VOIDED)


@lru_cache(maxsize=4096)
def posted(method: str, parcels: str, key: int = 0, day: int = 0) -> Ended:
    """Return the end of a posted operation. Equal ends share one object, because hundreds of thousands are kept under
    load."""
    return Ended(End.POSTED, method, parcels, key, day)


def posted_by(entry: Entry) -> Ended:
    """Return the end that this debit entry records."""
    key = split_key(entry.description)[1]
    return posted(entry.method, entry.parcels, key, entry.at_ms // DAY_MS if key else 0)
