"""The service as its documents describe it: its address, its paths, its methods and their prices.

Implements: decisions, "pricing". Pure.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from actors.catalog import METHODS, Availability, MethodRow, price_of
from actors.config import PricingConfig
from actors.method_documents import DOCUMENTS
from actors.method_schemas import MethodDocument

TITLE = "Ledger Gateway"
VERSION = "0.1.0"
SUMMARY = "A prepaid gateway to Solana RPC: JSON-RPC over HTTP, WebSocket and MCP, paid with credits or by x402."


@dataclass(frozen=True, slots=True)
class Method:
    """One callable method. price: in words; credits_max: None where only a quote can tell it."""

    row: MethodRow
    document: MethodDocument
    price: str
    credits_max: int | None


@dataclass(frozen=True, slots=True)
class Offer:
    """public_url: origin that clients see, without a slash at its end. served: as GET /capabilities lists paths."""

    public_url: str
    served: Sequence[str]
    methods: Sequence[Method]


def offer(public_url: str, served: Sequence[str], pricing: PricingConfig, relay: bool) -> Offer:
    """relay: whether there is a block engine, so that its methods can be called."""
    rows = [row for row in METHODS.values() if row.callable and (relay or row.availability is not Availability.RELAY)]
    methods = [_method(row, pricing) for row in sorted(rows, key=lambda row: row.name)]
    return Offer(public_url.rstrip("/"), tuple(dict.fromkeys(served)), methods)


def _method(row: MethodRow, pricing: PricingConfig) -> Method:
    return Method(row, DOCUMENTS[row.name], *price_of(row, pricing))
