"""Classes of methods: which circuit breaker counts a failure, which nodes are asked, and whether a retry is safe.

Implements: node pool (roles; retries of reads only, never of sends; a circuit breaker per node and method class).
Pure data. Prices and timeouts are in catalog.py; this table is about the effect of a second request.

A method that is not known to only read counts as a send: a second request could act twice.
"""

from enum import IntEnum, unique

from actors.catalog import METHODS, MethodClass


@unique
class Lane(IntEnum):
    """A class of methods that fail together; each node has a circuit breaker for each class."""

    CHEAP = 0
    MEDIUM = 1
    HEAVY = 2
    SEND = 3


LANES = tuple(Lane)
_READS = ("get", "is", "minimum", "simulate")  # What the names of the chain's reading methods begin with.
_LANE_OF_CLASS = {
    MethodClass.READ_CHEAP: Lane.CHEAP,
    MethodClass.READ_MEDIUM: Lane.MEDIUM,
    MethodClass.READ_HEAVY: Lane.HEAVY,
}
# Old blocks and transactions: asked of nodes with the role `archive` first, where there are any.
_OF_HISTORY = frozenset(
    ("getBlock", "getBlockTime", "getBlocks", "getBlocksWithLimit", "getTransaction", "getSignaturesForAddress")
)
_lanes: dict[str, Lane] = {}


def lane_of(method: str) -> Lane:
    lane = _lanes.get(method)
    if lane is None:
        lane = _lane(method)
        if method in METHODS:  # Only names of our own table are remembered, so that memory has a bound.
            _lanes[method] = lane
    return lane


def may_repeat(method: str) -> bool:
    """Return whether a call with an unknown outcome may be sent again."""
    return lane_of(method) is not Lane.SEND


def is_of_history(method: str) -> bool:
    return method in _OF_HISTORY


def _lane(method: str) -> Lane:
    if not method.startswith(_READS):
        return Lane.SEND
    row = METHODS.get(method)
    # Reads that are no product of their own (parts of composed methods, denied ones) are as slow as the slowest.
    return Lane.HEAVY if row is None else _LANE_OF_CLASS.get(row.method_class, Lane.HEAVY)
