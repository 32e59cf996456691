"""The paths that tell of events: webhooks and signals.

Implements: interface specification, "Webhook management" and "Public endpoints". Pure data.
"""

from actors.documents.operation import Access, Operation
from actors.documents.schemas import (
    COUNT,
    PUBKEY,
    PUBKEYS,
    SECONDS,
    STRING,
    Schema,
    body,
    comma_list,
    list_of,
    or_null,
    ref,
)

_LIMIT: tuple[str, Schema] = ("limit", {"type": "integer", "minimum": 1, "maximum": 500, "default": 50})
_WEBHOOK_FIELDS: dict[str, Schema] = {
    "url": {"type": "string", "description": "https"},
    "filter_type": {"type": "string", "enum": ["account", "program", "my_account", "lifecycle", "signal"]},
}
_WEBHOOK_OPTIONS: dict[str, Schema] = {
    "filter_value": or_null(STRING),
    "lifecycle_events": or_null(list_of(STRING)),
    "signal_events": or_null(list_of(STRING)),
    "wallets": or_null(list_of(PUBKEY)),
}


def _webhook(endpoint: str, summary: str, answer: str, **more: object) -> Operation:
    settled: dict[str, object] = {"access": Access.ACCOUNT, "is_limited": True, "refusals": (403, 404, 503), **more}
    return Operation(endpoint, "webhooks", summary, ref(answer), **settled)  # type: ignore[arg-type]


WEBHOOKS = (
    _webhook(
        "POST /webhooks",
        "Registers a URL for events.",
        "NewWebhook",
        request=body(_WEBHOOK_OPTIONS, **_WEBHOOK_FIELDS),
        successes=(201,),
    ),
    _webhook("GET /webhooks", "Lists the webhooks of the account.", "Webhooks"),
    _webhook("DELETE /webhooks/{id}", "Deletes a webhook.", "DeletedWebhook"),
    _webhook("PATCH /webhooks/{id}", "Changes a webhook.", "ChangedWebhook", request={"type": "object"}),
    _webhook(
        "POST /webhooks/{id}/rotate-secret", "Gives a new secret; the old one signs too for a day.", "RotatedSecret"
    ),
    _webhook(
        "GET /webhooks/{id}/deliveries",
        "Lists deliveries and their attempts, newest first.",
        "Deliveries",
        query=(_LIMIT, ("before", {"type": "string", "description": "an event id of this webhook"})),
    ),
    _webhook("POST /webhooks/{id}/test", "Sends one signed example event.", "TestDelivery"),
    _webhook(
        "POST /webhooks/{id}/replay",
        "Sends events again, by their ids or by time.",
        "Replayed",
        request={
            "anyOf": [
                body(event_ids=list_of(STRING, minItems=1, maxItems=1_000)),
                body(**{"from": SECONDS, "to": SECONDS}),
            ]
        },
    ),
)

_FILTERS: tuple[tuple[str, Schema], ...] = (
    ("kinds", comma_list("graduation|largeSwap|newPair|walletActivity", "kinds of signals, separated by commas")),
    ("mint", PUBKEY),
    ("program", PUBKEY),
    ("programs", PUBKEYS),
    ("wallets", PUBKEYS),
    ("min_lamports", COUNT),
    ("since", {"type": "string", "minLength": 1, "description": "a cursor of an earlier answer"}),
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
        "5 credits to connect, 1 for each event",
        query=_FILTERS,
        refusals=(403, 404, 503),
        content_type="text/event-stream",
    ),
)
