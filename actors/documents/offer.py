"""The service as its documents describe it: its address, its paths, its methods and their prices.

Implements: decisions, "pricing". Pure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from actors.methods.catalog import DOCUMENTS, METHODS
from actors.methods.entries import MethodRow, price_of
from actors.methods.forms import MethodDocument
from actors.methods.prices import Availability, SubscriptionRow
from actors.pricing_config import PricingConfig

TITLE = "Ledger Gateway"
SUMMARY = "A prepaid gateway to Solana: JSON-RPC over HTTP, WebSocket and MCP, and gRPC; paid in credits or by x402."


@dataclass(frozen=True, slots=True)
class Method:
    """One callable method. price: in words; credits_max: None where only a quote can tell it."""

    row: MethodRow
    document: MethodDocument
    price: str
    credits_max: int | None


@dataclass(frozen=True, slots=True)
class StreamOffer:
    """subscriptions: of a WebSocket; empty: it is not offered. grpc_target: host:port; empty: gRPC is not offered."""

    subscriptions: Sequence[SubscriptionRow] = ()
    subscriptions_max: int = 0
    frames_per_second_max: int = 0
    message_bytes_max: int = 0
    grpc_target: str = ""
    grpc_is_tls: bool = False


@dataclass(frozen=True, slots=True)
class Offer:
    """public_url: origin that clients see, without a slash at its end. served: as GET /capabilities lists paths.

    deposit: where to pay, as the data of a 402 tells it.
    """

    public_url: str
    served: Sequence[str]
    methods: Sequence[Method]
    streams: StreamOffer
    deposit: Mapping[str, str]


def offer(
    public_url: str,
    served: Sequence[str],
    pricing: PricingConfig,
    relay: bool,
    streams: StreamOffer,
    deposit: Mapping[str, str],
) -> Offer:
    """relay: whether there is a block engine, so that its methods can be called."""
    rows = [row for row in METHODS.values() if row.callable and (relay or row.availability is not Availability.RELAY)]
    methods = [_method(row, pricing) for row in sorted(rows, key=lambda row: row.name)]
    return Offer(public_url.rstrip("/"), tuple(dict.fromkeys(served)), methods, streams, deposit)


def _method(row: MethodRow, pricing: PricingConfig) -> Method:
    return Method(row, DOCUMENTS[row.name], *price_of(row, pricing))
