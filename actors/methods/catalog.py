"""Every method: the entries of all families in one table, by which calls are admitted, priced and documented.

Implements: interface, "Method classes and credits"; decisions, "pricing".
Pure data. A method that is not in this table does not exist: a method without a price is refused, never free
(money rule 8).
"""

from types import MappingProxyType

from actors.methods import accounts, assets, bundles, chain, fees, history, prices, sends, service, trades
from actors.methods.entries import MethodRow
from actors.methods.forms import MethodDocument
from actors.methods.prices import CLASSES, MethodClass

_FAMILIES = (accounts, assets, bundles, chain, fees, history, sends, service, trades)
_CLASSES = tuple(CLASSES)
_TABLE: tuple[MethodRow, ...] = tuple(
    sorted(
        (row for family in _FAMILIES for row in family.METHODS),
        key=lambda row: (_CLASSES.index(row.method_class), row.name),
    )
)
METHODS: MappingProxyType[str, MethodRow] = MappingProxyType({row.name: row for row in _TABLE})
DOCUMENTS: MappingProxyType[str, MethodDocument] = MappingProxyType(
    {row.name: row.document for row in _TABLE if row.document is not None}
)
# Methods whose transactions are decoded, and their signatures verified, before anything is charged.
TAKE_TRANSACTIONS = frozenset(
    row.name for family in (sends, bundles) for row in family.METHODS if row.method_class is not MethodClass.SEND_STATUS
)


def of_class(method_class: MethodClass) -> tuple[MethodRow, ...]:
    """Return the methods of this class, by name."""
    return tuple(row for row in METHODS.values() if row.method_class is method_class)


def priced_names() -> frozenset[str]:
    """Return the names of everything that a price list can give a price of its own, as the ledger has them."""
    methods = {row.name for row in METHODS.values() if row.callable and row.method_class not in prices.FREE}
    return frozenset(methods | {row.name for row in prices.BULK} | {row.name for row in prices.RELAY})


def check() -> None:
    """Refuse to start with a table by which a method could be free (threat 37)."""
    assert len(METHODS) == len(_TABLE), "a method is listed twice"
    for row in _TABLE:
        if row.callable and row.method_class not in prices.PRICED_ELSEWHERE:
            assert isinstance(row.credits, int) and row.credits > 0, f"{row.name}: a callable method needs a price"
        assert row.timeout_ms > 0, row
    for bulk in prices.BULK:
        assert isinstance(bulk.credits_per_item, int) and bulk.credits_per_item > 0, f"{bulk.name} needs a price"
    for relay in prices.RELAY:
        assert isinstance(relay.credits, int) and relay.credits > 0, f"{relay.name} needs a price"
