"""Classifies methods: which circuit breaker counts a failure, which nodes are asked, and whether a retry is safe.

Implements: node pool (roles; retries of reads only, never of sends; a circuit breaker per node and method class).
Pure data. Prices and timeouts are in methods/catalog.py. An unknown method counts as a send: a second request could
act twice.
"""

from enum import IntEnum, unique

from actors.methods.catalog import METHODS
from actors.methods.prices import MethodClass


@unique
class Lane(IntEnum):
    """A class of methods that fail together; each node has a circuit breaker for each class."""

    CHEAP = 0
    MEDIUM = 1
    HEAVY = 2
    SEND = 3


_READ_PREFIXES = ("get", "is", "minimum", "simulate")
_LANE_OF_CLASS = {
    MethodClass.READ_CHEAP: Lane.CHEAP,
    MethodClass.READ_MEDIUM: Lane.MEDIUM,
    MethodClass.READ_HEAVY: Lane.HEAVY,
}
# Old blocks and transactions: nodes with the role `archive` are asked first.
_OF_HISTORY = frozenset(
    ("getBlock", "getBlockTime", "getBlocks", "getBlocksWithLimit", "getTransaction", "getSignaturesForAddress")
)


def lane_of(method: str) -> Lane:
    lane = _LANES.get(method)
    return _lane(method) if lane is None else lane


def may_repeat(method: str) -> bool:
    """Return whether a call with an unknown outcome may be sent again."""
    return lane_of(method) is not Lane.SEND


def is_of_history(method: str) -> bool:
    return method in _OF_HISTORY


def _lane(method: str) -> Lane:
    if not method.startswith(_READ_PREFIXES):
        return Lane.SEND
    row = METHODS.get(method)
    # Reads outside the catalog (parts of composed methods) count as slow.
    return Lane.HEAVY if row is None else _LANE_OF_CLASS.get(row.method_class, Lane.HEAVY)


_LANES = {method: _lane(method) for method in METHODS}
