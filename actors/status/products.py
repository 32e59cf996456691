"""The products of the service, offered or not, and the prices of look-ups by list, of the relay and of webhooks.

Implements: interface, "Bundle relay", "Bulk endpoints", "Signal billing", "Webhook deliveries";
decisions, "native WebSocket subscriptions", "webhook delivery price".
Pure data. Prices of methods and streams are in actors/methods/catalog.py. A product that is not built is listed with
its price and `available: false`, so that no client relies on it.
"""

from dataclasses import dataclass
from types import MappingProxyType

from actors.methods import prices
from actors.methods.catalog import METHODS, of_class
from actors.methods.entries import MethodRow
from actors.methods.history import INDEXED
from actors.methods.prices import Availability, MethodClass


@dataclass(frozen=True, slots=True)
class Doors:
    """The doors that this build opens in addition to HTTP."""

    websocket: bool = False
    grpc: bool = False
    relay: bool = False  # Whether a block engine is configured.
    signals: bool = False  # Among the subscriptions of a WebSocket.


@dataclass(frozen=True, slots=True)
class UnitPrice:
    """name: in the ledger, and in the price lists of the settings."""

    credits: int
    per: str
    available: bool = False
    name: str = ""


BULK = MappingProxyType(
    {
        row.name.removeprefix("bulk/"): UnitPrice(row.credits_per_item, row.item, available=True, name=row.name)
        for row in prices.BULK
    }
)
RELAY = MappingProxyType({row.method: UnitPrice(row.credits, "request", name=row.name) for row in prices.RELAY})
WEBHOOKS = MappingProxyType(
    {
        **dict.fromkeys(
            ("account", "program", "my_account", "signal"),
            UnitPrice(prices.WEBHOOK_DELIVERY_CREDITS, "delivered event", available=True),
        ),
        "lifecycle": UnitPrice(0, "delivered event", available=True),
    }
)
# Of the interface; each leaves this list by itself when a door serves it.
ENDPOINTS_NOT_BUILT = (
    "POST /mcp",
    "POST /relay/sendBundle",
    "POST /relay/getBundleStatuses",
    "GET /relay/getTipAccounts",
    "GET /relay/tipFloor",
    "POST /webhooks",
    "GET /webhooks",
    "DELETE /webhooks/{id}",
    "POST /webhooks/{id}/rotate-secret",
    "GET /signals/recent",
)

NOT_BUILT = "not part of this version"
_NO_ENGINE = "no block engine is configured (sends.block_engine_url or sends.block_engines)"
_METHOD_REASONS = MappingProxyType(
    {
        Availability.NOT_BUILT: NOT_BUILT,
        Availability.RELAY: _NO_ENGINE,
        Availability.ARCHIVE: "archive history is not enabled in this service profile",
        Availability.DENIED: "denied: answered with -32601, at no charge",
        Availability.FORBIDDEN: "denied: answered with HTTP 403, at no charge",
    }
)
_SERVICE_REASONS = MappingProxyType(
    {
        "hot_rpc": NOT_BUILT,
        "send": NOT_BUILT,
        "websocket": "no node with a WebSocket URL is configured (upstream.nodes, ws_url)",
        "yellowstone_grpc": "no stream source is configured (upstream.yellowstone_url)",
        "heavy_indexed_rpc": f"needs {' and '.join(INDEXED)}",
        "archive_history": "only the node's own retention of several hours is served",
    }
)


def services(doors: Doors) -> dict[str, bool]:
    """Return the flags of the capabilities document.

    They follow the catalog: once a method is built, its flag is true.
    """
    return {
        "hot_rpc": _offers(MethodClass.READ_CHEAP),
        "send": _offers(MethodClass.SEND),
        "websocket": doors.websocket,
        "yellowstone_grpc": doors.grpc,
        "heavy_indexed_rpc": all(METHODS[name].callable for name in INDEXED),
        "archive_history": _offers(MethodClass.ARCHIVE_HISTORY),
    }


def _offers(method_class: MethodClass) -> bool:
    return any(row.callable for row in of_class(method_class))


def is_offered(row: MethodRow, doors: Doors) -> bool:
    """Return whether a method can be called here."""
    return row.callable and (doors.relay or row.availability is not Availability.RELAY)


def subscriptions(doors: Doors) -> tuple[list[str], dict[str, str]]:
    """Return the subscribe methods that are served, and those that are not with the reason."""
    names = [row.name for row in prices.SUBSCRIPTIONS]
    if not doors.websocket:
        return [], dict.fromkeys(names, service_reason("websocket"))
    served = [name for name in names if doors.signals or name != prices.SIGNALS]
    return served, {name: NOT_BUILT for name in names if name not in served}


def service_reason(name: str) -> str:
    return _SERVICE_REASONS[name]


def endpoint_reason(endpoint: str) -> str:
    return _NO_ENGINE if " /relay/" in endpoint else NOT_BUILT


def method_reason(availability: Availability) -> str:
    return _METHOD_REASONS[availability]
