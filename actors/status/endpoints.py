"""The documents of GET /health, /pricing and /capabilities.

Implements: interface, "Public endpoints", "Health document", "Pricing document"; decisions, "pricing".
Pure: builds the documents from state, catalog and configuration; their field names appear only here.
The pricing and capabilities documents do not change while a process runs, except the price of SOL: build them once.
Credits are integers, or null where a price is not per call; amounts of USDC are decimal strings.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from actors.config import PaymentsConfig
from actors.methods.catalog import METHODS, of_class
from actors.methods.context_slots import CONSISTENCIES
from actors.methods.price_lists import PERCENT, PUBLIC, PriceList
from actors.methods.prices import CLASSES, STREAMS, MethodClass
from actors.pricing_config import PricingConfig
from actors.status import products
from actors.status.core import Health, Status
from actors.status.products import Doors, UnitPrice
from actors.units import usdc_text

_AUTH = {"wallet_signature": True, "api_key": True, "session_token": True}


def health_http_status(health: Health) -> int:
    return 503 if health.status is Status.STARTING else 200


def health_document(
    health: Health,
    now: int,
    started_at: int,
    doors: Doors,
    clocks_disagree: bool = False,
    sponsor_low: bool | None = None,
    signals: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Build the health document.

    now, started_at: Unix seconds; started_at is when the service started. clocks_disagree: the clock of an account
    owner and the database's differ, so no credits expire. sponsor_low: the x402 sponsor lacks money; None: x402 is off.
    signals: what is told of the source of signals (signals/api.py). Calls continue in all these cases.
    Of these facts the status depends on the source of signals alone (core.py).
    stream_hub_away: there, and true, while the hub of this machine is away: WebSocket subscriptions are refused then.
    """
    flags = products.services(doors)
    del flags["archive_history"]  # Interface: in the capabilities document only.
    document: dict[str, Any] = {
        "status": health.status.value,
        "paid_traffic_ready": health.paid_traffic_ready,
        "agave_healthy": health.node_healthy,
        "service_profile": {"auth": dict(_AUTH), "services": flags},
        "timestamp": now,
    }
    if health.status is Status.DEGRADED:
        document["fallback_active"] = health.fallback_active
    if health.status is Status.OK:
        figures = {
            "solanaSlot": health.figures.slot,
            "solanaBlockHeight": health.figures.block_height,
            "uptime": max(0, now - started_at),
            "nodeVersion": health.figures.version,
        }
        document |= {name: value for name, value in figures.items() if value is not None}
    if health.services.owners_away:
        document["account_owners_away"] = list(health.services.owners_away)
    if not health.services.hub_reachable:
        document["stream_hub_away"] = True
    if clocks_disagree:
        document["clocks_disagree"] = True
    if sponsor_low is not None:
        document["sponsor_balance_low"] = sponsor_low
    if signals is not None:
        document["signals"] = dict(signals)
    return document


def capabilities_document(doors: Doors, served: Sequence[str]) -> dict[str, Any]:
    """served: HTTP method and path of everything that the doors serve."""
    flags = products.services(doors)
    not_callable = [row for row in METHODS.values() if not products.is_offered(row, doors)]
    served_kinds, other_kinds = products.subscriptions(doors)
    return {
        "ok": True,
        "service_profile": {"auth": dict(_AUTH), "services": flags},
        "services_not_enabled": [
            {"service": name, "reason": products.service_reason(name)} for name, offered in flags.items() if not offered
        ],
        "methods": {
            "available": sorted(row.name for row in METHODS.values() if products.is_offered(row, doors)),
            "not_enabled": [
                {"method": row.name, "reason": products.method_reason(row.availability)}
                for row in sorted(not_callable, key=lambda row: row.name)
            ],
        },
        "subscriptions": {
            "available": served_kinds,
            "not_enabled": [{"method": name, "reason": reason} for name, reason in other_kinds.items()],
        },
        "endpoints": {
            "available": list(served),
            "not_enabled": [
                {"endpoint": name, "reason": products.endpoint_reason(name)}
                for name in products.ENDPOINTS_NOT_BUILT
                if name not in served
            ],
        },
    }


def pricing_document(
    payments: PaymentsConfig,
    pricing: PricingConfig,
    outcomes: Mapping[str, bool],
    doors: Doors,
    prices: PriceList = PUBLIC,
) -> dict[str, Any]:
    """Build the pricing document. outcomes: each way a call can end, and whether it is then charged. prices: of the
    accounts to which it is shown."""
    return {
        "ok": True,
        "price_list": {"name": prices.name or "public", "percent": prices.percent},
        "credits_per_usdc": payments.credits_per_usdc,
        "minimum_deposit_usdc": usdc_text(payments.minimum_deposit_base_units),
        "credit_expiry_days": payments.credit_expiry_days,
        "classes": {
            method_class.value: None if row.credits is None else prices.part(row.credits)
            for method_class, row in CLASSES.items()
        },
        "methods": {
            row.name: {
                "class": row.method_class.value,
                "credits": None if row.credits is None else prices.credits(row.name, row.credits),
                "available": products.is_offered(row, doors),
            }
            for row in METHODS.values()
        },
        "outcome_priced": {
            row.name: {
                **_landing(row.name, pricing, prices),
                "available": row.callable,
            }
            for row in of_class(MethodClass.SEND_AND_CONFIRM)
        },
        "percentage_priced": percentage_priced(pricing, None, prices),
        "bulk": _unit_prices(products.BULK, prices),
        "relay": _unit_prices(products.RELAY, prices, doors.relay),
        "streams": {
            name: {**_stream_prices(name, prices), "available": offered}
            for name, offered in zip(STREAMS, (doors.websocket, doors.signals, doors.grpc), strict=True)
        },
        "webhooks": _unit_prices(products.WEBHOOKS, prices),
        "cached": {"percent": pricing.cached_percent, "credits_min": 1},
        "consistency": {"header": "X-Consistency", "words": list(CONSISTENCIES), "further_credits": 0},
        "outcomes": {name: {"charged": charged} for name, charged in outcomes.items()},
    }


def percentage_priced(
    pricing: PricingConfig, sol_price: tuple[int, int | None] | None, prices: PriceList = PUBLIC
) -> dict[str, Any]:
    """Build the rows of the trade builders.

    sol_price: millionths of a US dollar for one SOL, and the seconds since it was published (None: the operator fixed
    it). None: there is no price, so nothing is built. A price is a decimal string. trade_percent: of a list that has
    another percentage than 100, how much of the part in basis points is charged.
    """
    micro_usd, age_seconds = (None, None) if sol_price is None else sol_price
    row = {
        "trade_bps": pricing.trade_bps,
        "sol_usd": None if micro_usd is None else f"{micro_usd // 10**6}.{micro_usd % 10**6:06d}",
        "sol_usd_age_seconds": age_seconds,
    }
    share = {} if prices.percent == PERCENT else {"trade_percent": prices.percent}
    return {
        method.name: {
            "build_credits": prices.credits(method.name, pricing.build_credits),
            **row,
            **share,
            "available": method.callable,
        }
        for method in of_class(MethodClass.TRADE_BUILD)
    }


def _landing(name: str, pricing: PricingConfig, prices: PriceList) -> dict[str, int]:
    landing, base = prices.landing(name, pricing.landing_credits, pricing.base_credits)
    return {"landing_credits": landing, "base_credits": base}


def _stream_prices(stream: str, prices: PriceList) -> dict[str, Any]:
    """The prices of a stream: of charges in whole credits, of events exactly."""
    if prices.percent == PERCENT:
        return dict(STREAMS[stream])
    found: dict[str, Any] = {}
    for name, public in STREAMS[stream].items():
        if name == "notifications_per_credit":
            per_credit, rest = divmod(PERCENT * public, prices.percent)
            found |= {} if rest else {name: per_credit}
            found["credits_per_1000_notifications"] = 1_000 * prices.percent // (PERCENT * public)
        elif name == "event_credits":
            found |= {name: prices.part(public)} if prices.percent % PERCENT == 0 else {}
            found["credits_per_1000_events"] = 1_000 * prices.percent * public // PERCENT
        else:
            found[name] = prices.part(public) if name.endswith("_credits") else public
    return found


def _unit_prices(listed: Mapping[str, UnitPrice], prices: PriceList, available: bool = False) -> dict[str, Any]:
    return {
        name: {
            "credits": prices.credits(price.name, price.credits),
            "per": price.per,
            "available": price.available or available,
        }
        for name, price in listed.items()
    }
