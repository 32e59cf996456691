"""The typed Python client of Ledger Gateway, and its command line. See README.md in this folder."""

from ledger_gateway.answers import BatchItem, Figures
from ledger_gateway.client import DEFAULT_URL, Gateway, new_idempotency_key
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
from ledger_gateway.retries import RetryPolicy
from ledger_gateway.signals import Signal, SignalGap, current, to_pandas
from ledger_gateway.stream import Stream
from ledger_gateway.subscriptions import Gap, Notification
from ledger_gateway.webhooks import Delivery, WebhookInvalid, verify

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
    "Stream",
    "Unavailable",
    "Unreachable",
    "Wallet",
    "WebhookInvalid",
    "current",
    "new_idempotency_key",
    "to_pandas",
    "verify",
]
