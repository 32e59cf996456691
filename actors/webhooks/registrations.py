"""What a customer may register, and a registration as it is kept and shown.

Implements: interface specification, "Webhook subscription"; decisions, "webhook record", "watched wallets". Pure.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from actors.errors import Err, Refusal
from actors.units import base58_text, parse_pubkey
from actors.webhooks.core import event_id

LIFECYCLE_EVENTS = ("low_balance", "deposit.credited", "credits.expiring", "api_key.rotated")
SIGNAL_KINDS = ("newPair", "graduation", "walletActivity", "largeSwap")
FILTER_TYPES = ("account", "program", "my_account", "lifecycle", "signal")
WEBHOOKS_MAX = 50  # Of one account.
WALLETS_MAX = 100
ANY_SUBJECT = ""  # Of signals, which are about no single account.
_FIELDS = frozenset(("url", "filter_type", "filter_value", "lifecycle_events", "signal_events", "wallets"))
_CHANGES = frozenset(("lifecycle_events", "signal_events", "wallets", "status"))


@dataclass(frozen=True, slots=True)
class WebhookFilter:
    """subject, kinds, wallets: what an event must have (schema.sql)."""

    filter_type: str
    filter_value: str | None
    subject: str
    kinds: tuple[str, ...] | None = None
    wallets: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class WantedWebhook:
    """A checked registration; the URL is checked by the guard."""

    url: str
    filter: WebhookFilter


@dataclass(frozen=True, slots=True)
class Change:
    """A checked change. None: stays as it is."""

    kinds: tuple[str, ...] | None = None
    wallets: tuple[str, ...] | None = None
    enable: bool | None = None


@dataclass(frozen=True, slots=True)
class Webhook:
    """A registration without its secrets."""

    id: str
    pubkey: bytes
    url: str
    filter: WebhookFilter
    status: str
    disabled_reason: str | None
    created_ms: int
    last_job: int | None = None
    last_status: str | None = None
    last_http_status: int | None = None
    last_at_ms: int | None = None

    def body(self) -> dict[str, Any]:
        """As it is listed."""
        found, last = self.filter, None
        if self.last_job is not None:
            last = {
                "event_id": event_id(self.id, self.last_job),
                "status": self.last_status,
                "http_status": self.last_http_status,
                "at": (self.last_at_ms or 0) // 1000,
            }
        body: dict[str, Any] = {
            "id": self.id,
            "url": self.url,
            "filter_type": found.filter_type,
            "filter_value": found.filter_value,
            "lifecycle_events": list(found.kinds or ()) if found.filter_type == "lifecycle" else None,
            "signal_events": list(found.kinds or SIGNAL_KINDS) if found.filter_type == "signal" else None,
            "status": self.status,
            "disabled_reason": self.disabled_reason,
            "created_at": self.created_ms // 1000,
            "last_delivery": last,
        }
        return body | ({"wallets": list(found.wallets)} if found.wallets else {})


def parse_wanted(fields: Any, pubkey: bytes, has_signals: bool) -> WantedWebhook | Refusal:
    """The body of POST /webhooks, decoded from JSON. has_signals: whether this service emits signals."""
    if not isinstance(fields, dict):
        return _bad("the body must be a JSON object")
    unknown = sorted(set(fields) - _FIELDS)
    if unknown:
        return _bad(f"unknown field {unknown[0][:40]!r}")
    url, kind = fields.get("url"), fields.get("filter_type")
    if not isinstance(url, str):
        return _bad("url must be a string")
    if kind not in FILTER_TYPES:
        return _bad(f"filter_type must be one of {', '.join(FILTER_TYPES)}")
    found = _filter(kind, fields, pubkey, has_signals)
    return found if isinstance(found, Refusal) else WantedWebhook(url, found)


def parse_change(fields: Any, filter_type: str) -> Change | Refusal:
    """The body of PATCH /webhooks/{id}, decoded from JSON. filter_type: of this webhook."""
    if not isinstance(fields, dict) or not fields:
        return _bad("the body must be a JSON object with at least one field")
    unknown = sorted(set(fields) - _CHANGES)
    if unknown:
        return _bad(f"{unknown[0][:40]!r} cannot be changed; changeable: {', '.join(sorted(_CHANGES))}")
    kinds: tuple[str, ...] | Refusal | None = None
    for name, owner in (("lifecycle_events", "lifecycle"), ("signal_events", "signal"), ("wallets", "signal")):
        if name in fields and filter_type != owner:
            return _bad(f"{name} is for filter_type {owner}")
    if "lifecycle_events" in fields:
        kinds = _lifecycle(fields["lifecycle_events"])
    elif "signal_events" in fields:
        kinds = _kinds(fields["signal_events"])
    wallets = _wallets(fields.get("wallets"))
    if isinstance(kinds, Refusal):
        return kinds
    if isinstance(wallets, Refusal):
        return wallets
    status = fields.get("status")
    if "status" in fields and status not in ("active", "disabled"):
        return _bad("status must be active or disabled")
    return Change(kinds, wallets, None if status is None else status == "active")


def _filter(kind: str, fields: Mapping[str, Any], pubkey: bytes, has_signals: bool) -> WebhookFilter | Refusal:
    value = fields.get("filter_value")
    own = base58_text(pubkey)
    for name, owner in (("lifecycle_events", "lifecycle"), ("signal_events", "signal"), ("wallets", "signal")):
        if fields.get(name) is not None and kind != owner:
            return _bad(f"{name} is for filter_type {owner}")
    if kind in ("account", "program"):
        if not isinstance(value, str) or parse_pubkey(value) is None:
            return _bad(f"filter_value must be the base58 {'address' if kind == 'account' else 'program id'} to watch")
        return WebhookFilter(kind, value, value)
    if kind == "my_account":
        if value is not None and value != own:
            return _bad("filter_value of my_account is your own public key, or absent")
        return WebhookFilter(kind, value, own)
    if value is not None:
        return _bad(f"filter_type {kind} takes no filter_value")
    if kind == "lifecycle":
        events = _lifecycle(fields.get("lifecycle_events"))
        return events if isinstance(events, Refusal) else WebhookFilter(kind, None, own, events)
    if not has_signals:
        return _bad("filter_type signal is not offered by this service yet")
    kinds, wallets = _kinds(fields.get("signal_events")), _wallets(fields.get("wallets"))
    if isinstance(kinds, Refusal):
        return kinds
    return wallets if isinstance(wallets, Refusal) else WebhookFilter(kind, None, ANY_SUBJECT, kinds, wallets)


def _lifecycle(value: Any) -> tuple[str, ...] | Refusal:
    if not isinstance(value, list) or not value:
        return _bad(f"lifecycle_events must list at least one of {', '.join(LIFECYCLE_EVENTS)}")
    unknown = [name for name in value if name not in LIFECYCLE_EVENTS]
    if unknown:
        return _bad(f"unknown lifecycle event (known: {', '.join(LIFECYCLE_EVENTS)})")
    return tuple(dict.fromkeys(value))


def _kinds(value: Any) -> tuple[str, ...] | Refusal | None:
    """None: all kinds."""
    if value is None:
        return None
    if not isinstance(value, list) or not value or any(name not in SIGNAL_KINDS for name in value):
        return _bad(f"signal_events must list at least one of {', '.join(SIGNAL_KINDS)}")
    return tuple(dict.fromkeys(value))


def _wallets(value: Any) -> tuple[str, ...] | Refusal | None:
    if value is None:
        return None
    if not isinstance(value, list) or not 1 <= len(value) <= WALLETS_MAX:
        return _bad(f"wallets must list 1 to {WALLETS_MAX} public keys")
    if any(not isinstance(name, str) or parse_pubkey(name) is None for name in value):
        return _bad("wallets must be base58 public keys")
    return tuple(dict.fromkeys(value))


def _bad(detail: str) -> Refusal:
    return Refusal(Err.INVALID_REQUEST, detail)
