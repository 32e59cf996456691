"""Parameters and answers of each HTTP path: the table from which the OpenAPI document and the reference page are made.

Implements: interface, "Endpoints". Pure data. The paths that are served are told by the gateway's routes
and by the pages of contexts; a test fails for a served path without a row.
"""

from collections.abc import Iterable, Sequence
from itertools import permutations
from types import MappingProxyType

from actors.documents.document_operations import DOCUMENTS
from actors.documents.event_operations import SIGNALS, WEBHOOKS
from actors.documents.key_operations import KEYS
from actors.documents.operation import TIME, Access, Operation
from actors.documents.schemas import ENTRY_TYPES, PUBKEY, SIGNATURE, STRING, Schema, body, list_of, record, ref
from actors.methods import prices
from actors.methods.forms import EXAMPLE_KEY, EXAMPLE_SIGNATURE

_COLUMNS = ("method", "hour", "day", "key")
_GROUPINGS = [",".join(columns) for count in range(1, len(_COLUMNS) + 1) for columns in permutations(_COLUMNS, count)]
# 134 bytes are one signature, one account and no instruction; 1,232 bytes are the most that a packet carries.
_TRANSACTION: Schema = {
    "type": "string",
    "format": "solana-transaction",
    "pattern": "^[A-Za-z0-9+/]+={0,2}$",
    "minLength": 180,
    "maxLength": 1_644,
    "description": "a transaction in base64, signed by its payer",
}
_PLACE: Schema = {"type": "string", "pattern": "^[0-9]{1,13}-[0-9]{1,18}$"}  # Time and number of an entry.
_WINDOW = (
    ("offset", {"type": "integer", "minimum": 0, "maximum": 1_000_000, "default": 0}),
    ("limit", {"type": "integer", "minimum": 1, "maximum": 500, "default": 50}),
)
_OF_CALLS = (403, 412, 502, 503, 504)
_CALL = {"jsonrpc": "2.0", "id": 1, "method": "getSlot"}
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
        example=_CALL,
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
        {"anyOf": [ref("McpMessage"), {"type": "array", "minItems": 1, "maxItems": 100}]},
        successes=(200, 202),
        refusals=(*_OF_CALLS, 404, 406, 409, 415),
        is_call=True,
        has_key=True,
        example={**_CALL, "method": "tools/call", "params": {"name": "getSlot", "arguments": {"params": []}}},
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
        example=_CALL,
    ),
)

_BULK_ANSWERS = {
    "bulk/getBalances": ("Balances", PUBKEY),
    "bulk/getTokenBalances": ("TokenBalances", PUBKEY),
    "bulk/getTransactions": ("Transactions", SIGNATURE),
}


def _bulk(row: prices.BulkRow) -> Operation:
    answer, item = _BULK_ANSWERS[row.name]
    unit = "credit" if row.credits_per_item == 1 else "credits"
    return Operation(
        f"POST /{row.name}",
        "bulk",
        f"Looks up to {row.items_max} {row.items} up.",
        ref(answer),
        Access.ACCOUNT,
        f"{row.credits_per_item} {unit} for each {row.item} that is answered",
        body(
            {"commitment": {"type": "string", "enum": list(row.commitments), "default": row.commitments[0]}},
            **{row.items: list_of(item, minItems=1, maxItems=row.items_max)},
        ),
        refusals=_OF_CALLS,
        is_call=True,
        example={row.items: [EXAMPLE_SIGNATURE if item is SIGNATURE else EXAMPLE_KEY]},
    )


_RELAYED = {row.method: row for row in prices.RELAY}


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


def _session(
    name: str, summary: str, answer: str, refusals: tuple[int, ...], request: Schema | None = None
) -> Operation:
    """request: None if the token suffices, and no body is needed."""
    return Operation(
        f"POST /auth/{name}",
        "sessions",
        summary,
        ref(answer),
        Access.PUBLIC if request else Access.SESSION,
        request=request or {"type": "object"},
        needs_body=request is not None,
        refusals=refusals,
        is_limited=True,
    )


_OF_MONTHS = (403, 404, 410, 503)  # 410: the month left the ledger.
_ACCOUNT = (
    _account("GET /account/info", "Returns the account: balance, funding, credit batches.", "Account"),
    _account(
        "GET /account/ledger",
        "Lists deposits, debits and adjustments, newest first; by a cursor at the same cost however far back.",
        "Ledger",
        refusals=_OF_MONTHS,
        query=(
            *_WINDOW,
            ("cursor", _PLACE),
            ("from", TIME),
            ("to", TIME),
            ("type", {"type": "string", "enum": ENTRY_TYPES}),
            ("method", {"type": "string", "minLength": 1, "maxLength": 128}),
            ("operation", {"type": "string", "pattern": "^[0-9a-f]{32}$"}),
            ("details", {"type": "string", "enum": ["true", "false"]}),
            ("format", {"type": "string", "enum": ["json", "csv", "parquet"]}),
        ),
        other_types=("text/csv", "application/vnd.apache.parquet"),
    ),
    _account(
        "GET /account/history",
        "Lists charged calls, newest first; a call that was refunded since has 0 credits.",
        "History",
        query=_WINDOW,
    ),
    _account(
        "GET /account/usage",
        "Adds up calls and credits by method, hour or day.",
        "Usage",
        query=(
            ("by", {"type": "string", "enum": _GROUPINGS, "default": "method"}),
            ("from", TIME),
            ("to", TIME),
            ("format", {"type": "string", "enum": ["json", "csv"]}),
        ),
        other_types=("text/csv",),
    ),
    _account(
        "GET /account/calls",
        "Lists the calls of the last day, newest first, refused and free ones too; a named key sees its own.",
        "LoggedCalls",
        query=(
            ("limit", {"type": "integer", "minimum": 1, "maximum": 200, "default": 50}),
            ("before", _PLACE),
            *((name, STRING) for name in ("request_id", "method", "outcome")),
            ("key", {"type": "integer", "minimum": 0}),
        ),
    ),
    _account(
        "GET /account/receipts",
        "Proves entries of the ledger, newest first, by signed statements.",
        "Receipts",
        refusals=_OF_MONTHS,
        query=(
            ("limit", {"type": "integer", "minimum": 1, "maximum": 100, "default": 20}),
            ("cursor", _PLACE),
            ("from", TIME),
            ("to", TIME),
            ("type", {"type": "string", "enum": ENTRY_TYPES}),
            ("method", {"type": "string", "minLength": 1, "maxLength": 128}),
        ),
    ),
    _account(
        "GET /account/receipts/{id}",
        "Proves one entry, or what one call was charged.",
        "Receipts",
        refusals=_OF_MONTHS,
    ),
    _account(
        "GET /account/consistency",
        "Gives the entries between two receipts, by which the later one is checked to continue the earlier one.",
        "Consistency",
        refusals=_OF_MONTHS,
        query=(
            ("from", _PLACE),
            ("to", _PLACE),
            ("limit", {"type": "integer", "minimum": 1, "maximum": 1_000, "default": 1_000}),
        ),
    ),
    _account(
        "GET /account/bills/{month}",
        "Adds up one month: opening balance, what came and went by type and method, closing balance.",
        "Bill",
        refusals=_OF_MONTHS,
        query=(
            ("by", {"type": "string", "enum": ["month", "day"], "default": "month"}),
            ("format", {"type": "string", "enum": ["json", "csv", "beancount", "html"], "default": "json"}),
            ("opening", {"type": "string", "enum": ["true", "false"], "default": "true"}),
        ),
        other_types=("text/csv",),
    ),
    _account(
        "POST /account/api-key",
        "Makes an API key, and the account where there is none. The key before it ends.",
        "IssuedKey",
        access=Access.WALLET,
        request=record({"ref_code": {"type": ["string", "null"]}}),
        needs_body=False,
        example={},
    ),
    _account(
        "POST /account/confirm-deposit",
        "Credits a transfer of USDC to the deposit wallet.",
        "Confirmation",
        request=record(signature=SIGNATURE),
        example={"signature": EXAMPLE_SIGNATURE},
        refusals=(403, 404, 409, 502, 503),
        has_key=True,
    ),
    _session(
        "challenge",
        "Gives a text to sign.",
        "Challenge",
        (401,),
        record({"format": {"enum": ["challenge", "sign-in"]}}, pubkey=PUBKEY),
    ),
    _session(
        "verify",
        "Opens a session for a signed challenge.",
        "Session",
        (401, 402, 403, 404, 503),
        record(pubkey=PUBKEY, challenge=STRING, signature=STRING),
    ),
    _session("logout", "Ends the session of the token.", "LoggedOut", (403, 404, 503)),
    Operation(
        "POST /x402/settle",
        "payments",
        "Settles a half-signed payment.",
        ref("Settled"),
        request=record(transaction=_TRANSACTION),
        successes=(200, 202),
        refusals=(409, 502, 503),
        has_key=True,
        is_limited=True,
    ),
    Operation("GET /.well-known/x402.json", "payments", "Lists what x402 can pay for.", ref("X402Discovery")),
)

_STATUS = (
    Operation("GET /health", "status", "Tells whether paid calls are taken.", ref("Health"), successes=(200, 503)),
    Operation(
        "GET /pricing",
        "status",
        "Lists every price; with a credential those of its account.",
        ref("Pricing"),
        Access.OPTIONAL,
        refusals=(403, 503),
        is_limited=True,
    ),
    Operation("GET /capabilities", "status", "Lists what is offered here, and what is not.", ref("Capabilities")),
    Operation("GET /stats/landing", "status", "Tells how sends land.", ref("Landing"), refusals=(503,)),
    Operation(
        "GET /.well-known/ledger-keys.json",
        "status",
        "Lists the keys of signed statements.",
        ref("LedgerKeys"),
        refusals=(429, 503),
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
            *map(_bulk, prices.BULK),
            *_RELAY,
            *_ACCOUNT,
            *KEYS,
            *_STATUS,
            *WEBHOOKS,
            *SIGNALS,
            *DOCUMENTS,
        )
    }
)


def operations_of(served: Iterable[str]) -> list[Operation]:
    """Return the rows of the served paths, in order; a path without a row is listed without a description."""
    return [
        OPERATIONS.get(endpoint) or Operation(endpoint, "other", "", {}, Access.OPTIONAL, content_type="*/*")
        for endpoint in served
    ]
