"""The typed Python client of Ledger Gateway, and its command line. See README.md in this folder.

Names are loaded when they are first used: a command such as `ledger-gateway --help` needs few of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ledger_gateway.answers import BatchItem, Figures
    from ledger_gateway.call_requests import new_idempotency_key
    from ledger_gateway.client import DEFAULT_URL, Gateway
    from ledger_gateway.credentials import ApiKey, BadCredential, Session, Wallet
    from ledger_gateway.errors import (
        BadAnswer,
        BadRequest,
        Denied,
        GatewayError,
        KeyConflict,
        LedgerGatewayError,
        LimitReached,
        NodeError,
        NotFound,
        PaymentNeeded,
        Unavailable,
        Unreachable,
    )
    from ledger_gateway.frames import (
        ledger_to_arrow,
        ledger_to_pandas,
        ledger_to_polars,
        usage_to_arrow,
        usage_to_pandas,
        usage_to_polars,
        write_ledger,
    )
    from ledger_gateway.history import HistoryEnd, HistoryReader, HistoryStopped, SignalHistory
    from ledger_gateway.retries import RetryPolicy
    from ledger_gateway.signals import Signal, SignalGap, current, to_pandas
    from ledger_gateway.stream import Stream
    from ledger_gateway.subscriptions import Gap, Notification
    from ledger_gateway.webhooks import Delivery, WebhookInvalid, verify

_MODULES = {
    "answers": ("BatchItem", "Figures"),
    "call_requests": ("new_idempotency_key",),
    "client": ("DEFAULT_URL", "Gateway"),
    "credentials": ("ApiKey", "BadCredential", "Session", "Wallet"),
    "errors": (
        *("BadAnswer", "BadRequest", "Denied", "GatewayError", "KeyConflict", "LedgerGatewayError", "LimitReached"),
        *("NodeError", "NotFound", "PaymentNeeded", "Unavailable", "Unreachable"),
    ),
    "frames": (
        *("ledger_to_arrow", "ledger_to_pandas", "ledger_to_polars"),
        *("usage_to_arrow", "usage_to_pandas", "usage_to_polars", "write_ledger"),
    ),
    "history": ("HistoryEnd", "HistoryReader", "HistoryStopped", "SignalHistory"),
    "retries": ("RetryPolicy",),
    "signals": ("Signal", "SignalGap", "current", "to_pandas"),
    "stream": ("Stream",),
    "subscriptions": ("Gap", "Notification"),
    "webhooks": ("Delivery", "WebhookInvalid", "verify"),
}
_PLACES = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "DEFAULT_URL",
    "ApiKey",
    "BadAnswer",
    "BadCredential",
    "BadRequest",
    "BatchItem",
    "Delivery",
    "Denied",
    "Figures",
    "Gap",
    "Gateway",
    "GatewayError",
    "HistoryEnd",
    "HistoryReader",
    "HistoryStopped",
    "KeyConflict",
    "LedgerGatewayError",
    "LimitReached",
    "NodeError",
    "NotFound",
    "Notification",
    "PaymentNeeded",
    "RetryPolicy",
    "Session",
    "Signal",
    "SignalGap",
    "SignalHistory",
    "Stream",
    "Unavailable",
    "Unreachable",
    "Wallet",
    "WebhookInvalid",
    "current",
    "ledger_to_arrow",
    "ledger_to_pandas",
    "ledger_to_polars",
    "new_idempotency_key",
    "to_pandas",
    "usage_to_arrow",
    "usage_to_pandas",
    "usage_to_polars",
    "verify",
    "write_ledger",
]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
