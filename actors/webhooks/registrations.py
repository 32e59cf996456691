"""Parses the registrations of customers, and shows stored ones.

Implements: interface, "Webhook subscription"; decisions, "webhook record", "watched wallets". Pure.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from actors.errors import Err, Refusal
from actors.units import base58_text, json_integer, parse_pubkey
from actors.webhooks.core import event_id

LIFECYCLE_EVENTS = ("low_balance", "deposit.credited", "credits.expiring", "api_key.rotated", "credits.anomaly")
SIGNAL_KINDS = ("newPair", "graduation", "walletActivity", "largeSwap")
FILTER_TYPES = ("account", "program", "my_account", "lifecycle", "signal")
WEBHOOKS_MAX = 50  # Of one account.
LIST_MAX = 100  # Wallets, programs, and names of events, of one webhook: as subscribeSignal takes.
_U64_MAX = (1 << 64) - 1
ANY_SUBJECT = ""  # Subject of signals, which concern no single account.
# Fields of one filter type, which may be changed later.
_OWNERS = {"lifecycle_events": "lifecycle"} | dict.fromkeys(
    ("signal_events", "wallets", "mint", "programs", "min_lamports"), "signal"
)
_FIELDS = frozenset(("url", "filter_type", "filter_value", *_OWNERS))
_CHANGES = frozenset(("status", *_OWNERS))


@dataclass(frozen=True, slots=True)
class WebhookFilter:
    """From subject on: what an event must have (schema.sql). None, and 0: anything."""

    filter_type: str
    filter_value: str | None
    subject: str
    kinds: tuple[str, ...] | None = None
    wallets: tuple[str, ...] | None = None
    mint: str | None = None
    programs: tuple[str, ...] | None = None
    min_lamports: int = 0

    @property
    def narrowed(
        self,
    ) -> tuple[tuple[str, ...] | None, tuple[str, ...] | None, str | None, tuple[str, ...] | None, int]:
        """Return all fields that can be changed."""
        return self.kinds, self.wallets, self.mint, self.programs, self.min_lamports


@dataclass(frozen=True, slots=True)
class WantedWebhook:
    """A checked registration; the URL is checked by the guard."""

    url: str
    filter: WebhookFilter


@dataclass(frozen=True, slots=True)
class Change:
    """A checked change. None: stays as it is."""

    filter: WebhookFilter | None = None
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
        """Return the webhook as it is listed."""
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
        if found.filter_type == "signal":
            body |= {name: list(each) for name in ("wallets", "programs") if (each := getattr(found, name))}
            body |= {name: each for name in ("mint", "min_lamports") if (each := getattr(found, name))}
        return body


def parse_wanted(fields: Any, pubkey: bytes) -> WantedWebhook | Refusal:
    """Read the body of POST /webhooks, decoded from JSON."""
    if not isinstance(fields, dict):
        return _bad("the body must be a JSON object")
    unknown = sorted(set(fields) - _FIELDS)
    if unknown:
        return _bad(f"unknown field {unknown[0][:40]!r}; known: {', '.join(sorted(_FIELDS))}")
    url, kind = fields.get("url"), fields.get("filter_type")
    if not isinstance(url, str):
        return _bad("url must be a string")
    if kind not in FILTER_TYPES:
        return _bad(f"filter_type must be one of {', '.join(FILTER_TYPES)}")
    found = _filter(kind, fields, pubkey)
    return found if isinstance(found, Refusal) else WantedWebhook(url, found)


def parse_change(fields: Any, present: WebhookFilter) -> Change | Refusal:
    """Read the body of PATCH /webhooks/{id}, decoded from JSON. present: the webhook's filter before it."""
    if not isinstance(fields, dict) or not fields:
        return _bad("the body must be a JSON object with at least one field")
    unknown = sorted(set(fields) - _CHANGES)
    if unknown:
        return _bad(f"{unknown[0][:40]!r} cannot be changed; changeable: {', '.join(sorted(_CHANGES))}")
    status = fields.get("status")
    if "status" in fields and status not in ("active", "disabled"):
        return _bad("status must be active or disabled")
    enable = None if status is None else status == "active"
    changed = set(fields) - {"status"}
    alien = _alien(changed, present.filter_type)
    if alien is not None:
        return alien
    if not changed:
        return Change(None, enable)
    if present.filter_type == "lifecycle":
        events = _lifecycle(fields["lifecycle_events"])
        return events if isinstance(events, Refusal) else Change(replace(present, kinds=events), enable)
    before = dict(zip(("signal_events", "wallets", "mint", "programs", "min_lamports"), present.narrowed, strict=True))
    kept = {name: list(value) if isinstance(value, tuple) else value for name, value in before.items()}
    found = _signal_filter(kept | fields)
    return found if isinstance(found, Refusal) else Change(found, enable)


def _alien(names: Iterable[str], filter_type: str) -> Refusal | None:
    """Refuse the first field that belongs to another type."""
    for name in sorted(names):
        if name in _OWNERS and _OWNERS[name] != filter_type:
            return _bad(f"{name} is for filter_type {_OWNERS[name]}")
    return None


def _filter(kind: str, fields: Mapping[str, Any], pubkey: bytes) -> WebhookFilter | Refusal:
    value = fields.get("filter_value")
    own = base58_text(pubkey)
    alien = _alien((name for name in fields if fields[name] is not None), kind)
    if alien is not None:
        return alien
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
    return _signal_filter(fields)


def _signal_filter(fields: Mapping[str, Any]) -> WebhookFilter | Refusal:
    """Read the filters of subscribeSignal; `kinds` is called signal_events here. null is absent."""
    kinds, mint, least = fields.get("signal_events"), fields.get("mint"), fields.get("min_lamports")
    if kinds is not None and (
        not isinstance(kinds, list)
        or not 1 <= len(kinds) <= LIST_MAX
        or any(name not in SIGNAL_KINDS for name in kinds)
    ):
        return _bad(f"signal_events must list at least one of {', '.join(SIGNAL_KINDS)}")
    if mint is not None and not _is_key(mint):
        return _bad("mint must be a base58 public key")
    for name in ("wallets", "programs"):
        keys = fields.get(name)
        if keys is not None and not (isinstance(keys, list) and 1 <= len(keys) <= LIST_MAX and all(map(_is_key, keys))):
            return _bad(f"{name} must list 1 to {LIST_MAX} base58 public keys")
    smallest = 0 if least is None else json_integer(least)
    if smallest is None or not 0 <= smallest <= _U64_MAX:
        return _bad("min_lamports must be a whole number of lamports")
    kinds, wallets, programs = (_distinct(each) for each in (kinds, fields.get("wallets"), fields.get("programs")))
    return WebhookFilter("signal", None, ANY_SUBJECT, kinds, wallets, mint, programs, smallest)


def _lifecycle(value: Any) -> tuple[str, ...] | Refusal:
    if not isinstance(value, list) or not 1 <= len(value) <= LIST_MAX:
        return _bad(f"lifecycle_events must list at least one of {', '.join(LIFECYCLE_EVENTS)}")
    unknown = [name for name in value if name not in LIFECYCLE_EVENTS]
    if unknown:
        return _bad(f"unknown lifecycle event (known: {', '.join(LIFECYCLE_EVENTS)})")
    return tuple(dict.fromkeys(value))


def _is_key(value: Any) -> bool:
    return isinstance(value, str) and parse_pubkey(value) is not None


def _distinct(values: list[str] | None) -> tuple[str, ...] | None:
    return None if values is None else tuple(dict.fromkeys(values))


def _bad(detail: str) -> Refusal:
    return Refusal(Err.INVALID_REQUEST, detail)
