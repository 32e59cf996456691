"""The paths that tell of events: webhooks and signals.

Implements: interface, "Webhook management" and "Public endpoints". Pure data.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from actors.documents.operation import TIME, Access, Operation
from actors.documents.schemas import (
    LAMPORTS,
    PUBKEY,
    PUBKEYS,
    SECONDS,
    Schema,
    body,
    comma_list,
    list_of,
    or_null,
    ref,
)
from actors.methods.prices import STREAMS

_LIMIT: tuple[str, Schema] = ("limit", {"type": "integer", "minimum": 1, "maximum": 500, "default": 50})
_PRICES = STREAMS["signals"]
_KINDS = ("graduation", "largeSwap", "newPair", "walletActivity")
_LIFECYCLE_EVENTS = ("low_balance", "deposit.credited", "credits.expiring", "api_key.rotated", "credits.anomaly")
_LIST_MAX = 100
_HOST_AND_PORT = r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:[1-9][0-9]{0,4})?"
_URL: Schema = {
    "type": "string",
    "format": "webhook-url",
    "pattern": rf"^https?://{_HOST_AND_PORT}([/?][A-Za-z0-9._~:/?\[\]@!$&'()*+,;=%-]*)?$",
    "maxLength": 2_048,
    "description": "https, port 443 or 8443, a host on the public network; http is for this machine, in development",
}
_EVENT_ID: Schema = {
    "type": "string",
    "pattern": "^evt_[A-Za-z0-9._~-]{1,128}_[0-9]{1,18}$",
    "description": "an event id of this webhook",
}
_REPLAY_TIME: Schema = {**SECONDS, "maximum": 10**11}
_LIFECYCLE: dict[str, Schema] = {
    "lifecycle_events": list_of({"type": "string", "enum": list(_LIFECYCLE_EVENTS)}, minItems=1, maxItems=_LIST_MAX)
}
_KEYS = or_null(list_of(PUBKEY, minItems=1, maxItems=_LIST_MAX))
_SIGNAL_FILTERS: dict[str, Schema] = {
    "signal_events": or_null(list_of({"type": "string", "enum": list(_KINDS)}, minItems=1, maxItems=_LIST_MAX)),
    "wallets": _KEYS,
    "programs": _KEYS,
    "mint": or_null(PUBKEY),
    "min_lamports": or_null(LAMPORTS),
}
_NULL: Schema = {"type": "null"}


def _new_webhook(
    filter_types: Sequence[str], optional: Mapping[str, Schema] = MappingProxyType({}), **required: Schema
) -> Schema:
    """The body of POST /webhooks for these filter types; a field of another type may be null."""
    others = {name: _NULL for name in ("filter_value", *_LIFECYCLE, *_SIGNAL_FILTERS) if name not in required}
    filter_type: Schema = {"type": "string", "enum": list(filter_types)}
    described = body(others | dict(optional), url=_URL, filter_type=filter_type, **required)
    return {**described, "description": f"filter_type {' or '.join(filter_types)}"}


_NEW_WEBHOOK: Schema = {
    "anyOf": [
        _new_webhook(("account", "program"), filter_value=PUBKEY),
        _new_webhook(("my_account",), {"filter_value": or_null({**PUBKEY, "description": "your own public key"})}),
        _new_webhook(("lifecycle",), **_LIFECYCLE),
        _new_webhook(("signal",), _SIGNAL_FILTERS),
    ]
}
_STATUS: dict[str, Schema] = {"status": {"type": "string", "enum": ["active", "disabled"]}}
_CHANGED_WEBHOOK: Schema = {
    "anyOf": [
        {**body(_STATUS | _LIFECYCLE), "minProperties": 1, "description": "of filter_type lifecycle"},
        {**body(_STATUS | _SIGNAL_FILTERS), "minProperties": 1, "description": "of filter_type signal; null: any"},
    ]
}


def _webhook(endpoint: str, summary: str, answer: str, **more: object) -> Operation:
    settled: dict[str, object] = {"access": Access.ACCOUNT, "is_limited": True, "refusals": (403, 404, 503), **more}
    return Operation(endpoint, "webhooks", summary, ref(answer), **settled)  # type: ignore[arg-type]


WEBHOOKS = (
    _webhook(
        "POST /webhooks",
        "Registers a URL for events.",
        "NewWebhook",
        request=_NEW_WEBHOOK,
        successes=(201,),
        example={
            "url": "https://example.com/hook",
            "filter_type": "lifecycle",
            "lifecycle_events": ["low_balance", "deposit.credited"],
        },
    ),
    _webhook("GET /webhooks", "Lists the webhooks of the account.", "Webhooks"),
    _webhook("DELETE /webhooks/{id}", "Deletes a webhook.", "DeletedWebhook"),
    _webhook(
        "PATCH /webhooks/{id}",
        "Changes a webhook.",
        "ChangedWebhook",
        request=_CHANGED_WEBHOOK,
        example={"status": "active"},
    ),
    _webhook(
        "POST /webhooks/{id}/rotate-secret", "Gives a new secret; the old one signs too for a day.", "RotatedSecret"
    ),
    _webhook(
        "GET /webhooks/{id}/deliveries",
        "Lists deliveries and their attempts, newest first.",
        "Deliveries",
        query=(_LIMIT, ("before", _EVENT_ID)),
    ),
    _webhook("POST /webhooks/{id}/test", "Sends one signed example event.", "TestDelivery"),
    _webhook(
        "POST /webhooks/{id}/replay",
        "Sends events again, by their ids or by time.",
        "Replayed",
        request={
            "anyOf": [
                body(event_ids=list_of(_EVENT_ID, minItems=1, maxItems=1_000)),
                body(**{"from": _REPLAY_TIME, "to": _REPLAY_TIME}),
            ]
        },
        example={"from": 1_795_276_800, "to": 1_795_280_400},
    ),
)

_CURSOR: Schema = {
    "type": "string",
    "pattern": "^(0|[1-9][0-9]{0,14})-(0|[1-9][0-9]{0,9})$",
    "description": "a cursor of an earlier answer",
}
_FILTERS: tuple[tuple[str, Schema], ...] = (
    ("kinds", comma_list("|".join(_KINDS), "kinds of signals, separated by commas")),
    ("mint", PUBKEY),
    ("program", PUBKEY),
    ("programs", PUBKEYS),
    ("wallets", PUBKEYS),
    ("min_lamports", LAMPORTS),
    ("since", _CURSOR),
)
SIGNALS = (
    Operation(
        "GET /signals/recent",
        "signals",
        "Returns the newest signals, or those after a cursor.",
        ref("RecentSignals"),
        query=(_LIMIT, *_FILTERS),
        refusals=(503,),
        is_limited=True,
    ),
    Operation(
        "GET /signals/stream",
        "signals",
        "Sends signals as server-sent events, as they come.",
        {"type": "string"},
        Access.ACCOUNT,
        f"{_PRICES['connect_credits']} credits to connect, {_PRICES['event_credits']} for each event",
        query=_FILTERS,
        refusals=(403, 404, 503),
        content_type="text/event-stream",
    ),
    Operation(
        "GET /signals/history",
        "signals",
        "Returns the signals of a time, as JSON lines, CSV, Parquet or Arrow; X-Max-Credits caps it.",
        {"type": "string"},
        Access.ACCOUNT,
        f"{_PRICES['history_credits']} credits for each started {_PRICES['history_events']:,} signals; HEAD is free",
        query=(
            ("from", TIME),
            ("to", TIME),
            *(row for row in _FILTERS if row[0] in ("kinds", "mint", "program")),
            ("cursor", _CURSOR),
            ("format", {"type": "string", "enum": ["jsonl", "csv", "parquet", "arrow"], "default": "jsonl"}),
        ),
        refusals=(403, 404, 412, 429, 503),
        content_type="application/x-ndjson",
        other_types=("text/csv", "application/vnd.apache.parquet", "application/vnd.apache.arrow.stream"),
        has_limit=True,
    ),
)
