"""What each HTTP path takes and answers: the table from which the OpenAPI document and the reference page are made.

Implements: interface specification, "Endpoints". Pure data. The paths that are served are told by the gateway's routes
and by the pages of contexts; a path that is served and stands in no row is a mistake that a test finds.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, unique
from types import MappingProxyType

from actors import catalog
from actors.documents.schemas import (
    COUNT,
    PUBKEY,
    SECONDS,
    SIGNATURE,
    STRING,
    Schema,
    body,
    list_of,
    or_null,
    record,
    ref,
)


@unique
class Access(Enum):
    """The credentials that a path takes."""

    PUBLIC = "no credential"
    ACCOUNT = "any credential"
    WALLET = "a wallet's signature"
    SESSION = "a session token"
    OPTIONAL = "no credential, or any"


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one path.

    endpoint: as GET /capabilities lists it. price: in words; empty: free. answer: of success; successes, refusals: its
    statuses, beside those that every path of this access has. other_type: of content, which some answers have instead.
    is_call: it takes X-Max-Credits and tells its cost. has_key: it takes an Idempotency-Key. is_limited: by the number
    of requests of its client's address.
    """

    endpoint: str
    tag: str
    summary: str
    answer: Schema
    access: Access = Access.PUBLIC
    price: str = ""
    request: Schema | None = None
    needs_body: bool = True
    query: tuple[tuple[str, Schema], ...] = ()
    successes: tuple[int, ...] = (200,)
    refusals: tuple[int, ...] = ()
    content_type: str = "application/json"
    other_type: str = ""
    is_call: bool = False
    has_key: bool = False
    is_limited: bool = False

    @property
    def method(self) -> str:
        return self.endpoint.partition(" ")[0]

    @property
    def path(self) -> str:
        return self.endpoint.partition(" ")[2]


_TIME: Schema = {"type": "string", "description": "ISO 8601 in UTC, or Unix seconds"}
_WINDOW = (
    ("offset", {"type": "integer", "minimum": 0, "maximum": 1_000_000, "default": 0}),
    ("limit", {"type": "integer", "minimum": 1, "maximum": 500, "default": 50}),
)
_OF_CALLS = (403, 412, 502, 503, 504)
_RPC_BODY: Schema = {"anyOf": [ref("RpcCall"), ref("RpcBatch")]}


def _rpc(path: str) -> Operation:
    return Operation(
        f"POST {path}",
        "calls",
        "Answers one JSON-RPC call, or a batch of up to 100.",
        ref("RpcReplies"),
        Access.ACCOUNT,
        "the price of each method",
        _RPC_BODY,
        refusals=(*_OF_CALLS, 409),
        is_call=True,
        has_key=True,
    )


_CALLS = (
    _rpc("/"),
    _rpc("/rpc"),
    Operation(
        "POST /mcp",
        "calls",
        "Answers one message of the Model Context Protocol; version 2025-03-26 has batches too.",
        {"anyOf": [record(jsonrpc={"const": "2.0"}), list_of({"type": "object"})]},
        Access.OPTIONAL,
        "tools/call: the price of the method; all else is free",
        {"anyOf": [ref("McpMessage"), {"type": "array"}]},
        successes=(200, 202),
        refusals=(*_OF_CALLS, 404, 406, 409, 415),
        is_call=True,
        has_key=True,
    ),
    Operation(
        "POST /quote",
        "calls",
        "Tells the price of calls before they are made.",
        ref("Quote"),
        Access.OPTIONAL,
        request=_RPC_BODY,
        refusals=(403, 503),
        is_limited=True,
    ),
)

_BULK_ANSWERS = {
    "bulk/getBalances": ("Balances", PUBKEY),
    "bulk/getTokenBalances": ("TokenBalances", PUBKEY),
    "bulk/getTransactions": ("Transactions", SIGNATURE),
}


def _bulk(row: catalog.BulkRow) -> Operation:
    answer, item = _BULK_ANSWERS[row.name]
    unit = "credit" if row.credits_per_item == 1 else "credits"
    return Operation(
        f"POST /{row.name}",
        "bulk",
        f"Looks up to {row.items_max} {row.items} up.",
        ref(answer),
        Access.ACCOUNT,
        f"{row.credits_per_item} {unit} for each {row.item} that is answered",
        body(**{row.items: list_of(item, minItems=1, maxItems=row.items_max)}),
        refusals=_OF_CALLS,
        is_call=True,
    )


_RELAYED = {row.method: row for row in catalog.RELAY}


def _relay(path: str, methods: Sequence[str]) -> Operation:
    prices = ", ".join(f"{name}: {_RELAYED[name].credits}" for name in methods)
    return Operation(
        f"POST /relay/{path}",
        "relay",
        f"Passes {' or '.join(methods)} to the block engine.",
        ref("RpcReply"),
        Access.ACCOUNT,
        prices,
        ref("RpcCall"),
        refusals=(*_OF_CALLS, 404, 409),
        is_call=True,
        has_key=any(name.startswith("send") for name in methods),
    )


def _relay_page(path: str, summary: str, answer: str) -> Operation:
    return Operation(
        f"GET /relay/{path}",
        "relay",
        summary,
        ref(answer),
        Access.ACCOUNT,
        f"{_RELAYED[path].credits} credit",
        refusals=(*_OF_CALLS, 404),
        is_call=True,
    )


_ENGINE = {
    "bundles": ("sendBundle", "getBundleStatuses", "getInflightBundleStatuses", "getTipAccounts"),
    "transactions": ("sendTransaction",),
    "getBundleStatuses": ("getBundleStatuses",),
    "getInflightBundleStatuses": ("getInflightBundleStatuses",),
}
_RELAY = (
    _relay("sendBundle", ("sendBundle",)),
    *(_relay(prefix + name, methods) for prefix in ("", "api/v1/") for name, methods in _ENGINE.items()),
    _relay_page("getTipAccounts", "Lists the accounts that take tips for bundles.", "TipAccounts"),
    _relay_page("tipFloor", "Returns what recent bundles tipped.", "TipFloor"),
)


def _account(endpoint: str, summary: str, answer: str, **more: object) -> Operation:
    settled: dict[str, object] = {"access": Access.ACCOUNT, "is_limited": True, "refusals": (403, 404, 503), **more}
    return Operation(endpoint, "account", summary, ref(answer), **settled)  # type: ignore[arg-type]


_ACCOUNT = (
    _account("GET /account/info", "Returns the account: balance, funding, credit batches.", "Account"),
    _account("GET /account/ledger", "Lists deposits, debits and adjustments, newest first.", "Ledger", query=_WINDOW),
    _account("GET /account/history", "Lists charged calls, newest first.", "History", query=_WINDOW),
    _account(
        "GET /account/usage",
        "Adds up calls and credits by method, hour or day.",
        "Usage",
        query=(
            ("by", {"type": "string", "description": "method, hour, day, or several with commas", "default": "method"}),
            ("from", _TIME),
            ("to", _TIME),
            ("format", {"type": "string", "enum": ["json", "csv"]}),
        ),
        other_type="text/csv",
    ),
    _account(
        "POST /account/api-key",
        "Makes an API key, and the account where there is none. The key before it ends.",
        "IssuedKey",
        access=Access.WALLET,
        request=record({"ref_code": {"type": ["string", "null"], "maxLength": 64}}),
        needs_body=False,
    ),
    _account(
        "POST /account/confirm-deposit",
        "Credits a transfer of USDC to the deposit wallet.",
        "Confirmation",
        request=record(signature=SIGNATURE),
        refusals=(403, 404, 409, 502, 503),
        has_key=True,
    ),
    Operation(
        "POST /auth/challenge",
        "sessions",
        "Gives a text to sign.",
        ref("Challenge"),
        request=record(pubkey=PUBKEY),
        refusals=(401,),
        is_limited=True,
    ),
    Operation(
        "POST /auth/verify",
        "sessions",
        "Opens a session for a signed challenge.",
        ref("Session"),
        request=record(pubkey=PUBKEY, challenge=STRING, signature=STRING),
        refusals=(401, 402, 403, 404, 503),
        is_limited=True,
    ),
    Operation(
        "POST /auth/logout",
        "sessions",
        "Ends the session of the token.",
        ref("LoggedOut"),
        Access.SESSION,
        request={"type": "object"},
        needs_body=False,
        refusals=(403, 404, 503),
        is_limited=True,
    ),
    Operation(
        "POST /x402/settle",
        "payments",
        "Settles a half-signed payment.",
        ref("Settled"),
        request=record(transaction={"type": "string", "minLength": 1, "format": "byte", "description": "base64"}),
        successes=(200, 202),
        refusals=(409, 502, 503),
        has_key=True,
        is_limited=True,
    ),
    Operation("GET /.well-known/x402.json", "payments", "Lists what x402 can pay for.", ref("X402Discovery")),
)

_STATUS = (
    Operation("GET /health", "status", "Tells whether paid calls are taken.", ref("Health"), successes=(200, 503)),
    Operation("GET /pricing", "status", "Lists every price.", ref("Pricing")),
    Operation("GET /capabilities", "status", "Lists what is offered here, and what is not.", ref("Capabilities")),
    Operation("GET /stats/landing", "status", "Tells how sends land.", ref("Landing"), refusals=(503,)),
)

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


_WEBHOOKS = (
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
        query=(_WINDOW[1], ("before", {"type": "string", "description": "an event id of this webhook"})),
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
    ("kinds", {"type": "string", "description": "kinds of signals, separated by commas"}),
    ("mint", PUBKEY),
    ("program", PUBKEY),
    ("programs", {"type": "string", "description": "public keys, separated by commas"}),
    ("wallets", {"type": "string", "description": "public keys, separated by commas"}),
    ("min_lamports", COUNT),
    ("since", {"type": "string", "description": "a cursor of an earlier answer"}),
)
_SIGNALS = (
    Operation(
        "GET /signals/recent",
        "signals",
        "Returns the newest signals, or those after a cursor.",
        ref("RecentSignals"),
        query=(_WINDOW[1], *_FILTERS),
        refusals=(503,),
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

_DOCUMENTS = (
    Operation(
        "GET /console",
        "documents",
        "The page on which people look after an account; browsers get it at / too.",
        {"type": "string"},
        content_type="text/html; charset=utf-8",
    ),
    Operation("GET /openapi.json", "documents", "Describes every HTTP path.", {"type": "object"}, successes=(200, 304)),
    Operation(
        "GET /openrpc.json", "documents", "Describes every JSON-RPC method.", {"type": "object"}, successes=(200, 304)
    ),
    Operation(
        "GET /llms.txt",
        "documents",
        "Describes this service for language models.",
        {"type": "string"},
        successes=(200, 304),
        content_type="text/plain; charset=utf-8",
    ),
    Operation(
        "GET /docs",
        "documents",
        "The reference page for readers.",
        {"type": "string"},
        successes=(200, 304),
        content_type="text/html; charset=utf-8",
    ),
)

TAGS = {
    "calls": "JSON-RPC and tool calls",
    "bulk": "Look-ups of lists",
    "relay": "Bundles, by way of a block engine",
    "account": "The account of the credential",
    "sessions": "Session tokens",
    "payments": "Payments by x402",
    "webhooks": "Events, delivered to a URL",
    "signals": "Events of programs on the chain",
    "status": "Public pages",
    "documents": "Documents, made from the routes and the methods",
    "other": "Paths without a description",
}

OPERATIONS: MappingProxyType[str, Operation] = MappingProxyType(
    {
        row.endpoint: row
        for row in (
            *_CALLS,
            *map(_bulk, catalog.BULK),
            *_RELAY,
            *_ACCOUNT,
            *_STATUS,
            *_WEBHOOKS,
            *_SIGNALS,
            *_DOCUMENTS,
        )
    }
)


def operations_of(served: Iterable[str]) -> list[Operation]:
    """The rows of the paths that are served, in their order; one without a row is listed without a description."""
    return [
        OPERATIONS.get(endpoint) or Operation(endpoint, "other", "", {}, Access.OPTIONAL, content_type="*/*")
        for endpoint in served
    ]
