"""The shapes of requests and answers, as the JSON schemas that the OpenAPI document names.

Implements: interface, "Resources and their fields" and "Errors"; the decisions about open fields. Pure
data. An object may have more fields than are listed here; where a request may not, its schema says so.
"""

from types import MappingProxyType
from typing import Any

from actors.errors import Err

Schema = dict[str, Any]

STRING: Schema = {"type": "string"}
INTEGER: Schema = {"type": "integer"}
COUNT: Schema = {"type": "integer", "minimum": 0}
BOOLEAN: Schema = {"type": "boolean"}
ANYTHING: Schema = {}
LAMPORTS: Schema = {"type": "integer", "minimum": 0, "maximum": (1 << 64) - 1}
SECONDS: Schema = {"type": "integer", "minimum": 0, "description": "Unix seconds"}
MOMENT: Schema = {"type": "string", "format": "date-time", "description": "ISO 8601, UTC"}
_KEY, _SIGNATURE = (f"[1-9A-HJ-NP-Za-km-z]{{{least},{most}}}" for least, most in ((32, 44), (64, 88)))
PUBKEY: Schema = {
    "type": "string",
    "format": "solana-pubkey",
    "pattern": f"^{_KEY}$",
    "description": "32 bytes in base58",
}
SIGNATURE: Schema = {
    "type": "string",
    "format": "solana-signature",
    "pattern": f"^{_SIGNATURE}$",
    "description": "64 bytes in base58",
}
OK: Schema = {"type": "boolean", "const": True}
NETWORK: Schema = {"type": "string", "pattern": "^solana:[1-9A-HJ-NP-Za-km-z]{32}$", "description": "CAIP-2"}
ENTRY_TYPES = ["deposit", "bonus", "debit", "refund", "adjustment", "expiry", "fact"]
_CONSTANTS = sorted(err.name for err in Err)
_PLAIN_NAMES = sorted({*_CONSTANTS, "UPSTREAM_ERROR"})


def ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def comma_list(item: str, description: str, items_max: int = 100) -> Schema:
    """item: a pattern of one element."""
    pattern = f"^({item})(,({item})){{0,{items_max - 1}}}$"
    return {"type": "string", "pattern": pattern, "description": description}


PUBKEYS: Schema = {**comma_list(_KEY, "public keys, separated by commas"), "format": "solana-pubkeys"}


def or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def list_of(schema: Schema, **bounds: int) -> Schema:
    return {"type": "array", "items": schema, **bounds}


def record(optional: dict[str, Schema] | None = None, /, **fields: Schema) -> Schema:
    """Make an object that has all of these fields, and may have the optional ones and others."""
    return {"type": "object", "properties": {**fields, **(optional or {})}, "required": list(fields)}


def body(optional: dict[str, Schema] | None = None, /, **fields: Schema) -> Schema:
    """Make the body of a request that may have no other fields."""
    return {**record(optional, **fields), "additionalProperties": False}


_ERROR_DATA = record(
    {
        "requestId": STRING,
        "hint": STRING,
        "retry_after_secs": COUNT,
        "deposit_address": STRING,
        "usdc_mint": STRING,
        "minimum_deposit_usdc": STRING,
        "network": NETWORK,
        "network_name": STRING,
        "instructions": STRING,
        "required_credits": COUNT,
        "available_credits": COUNT,
        "x402": {"type": "object", "description": "terms of x402 version 2"},
    },
    source={"const": "gateway"},
    constant={"type": "string", "enum": _CONSTANTS},
)
_OFFER: dict[str, Schema] = {"x402Version": {"const": 1}, "accepts": list_of({"type": "object"})}
_DETAILS = ("method", "outcome", "operation", "signature", "request_id", "digest", "cache")
_ANY_ID: Schema = {"type": ["string", "number", "null"], "description": "the id of the call, byte for byte"}
_RPC_VERSION: Schema = {"const": "2.0"}

_ERRORS: dict[str, Schema] = {
    "HttpError": record(
        _OFFER,
        error=record(
            {"requestId": STRING, "data": {"type": "object"}},
            code={"type": "string", "enum": _PLAIN_NAMES},
            source={"const": "gateway"},
            constant={"type": "string", "enum": _CONSTANTS},
            message=STRING,
        ),
    ),
    "GatewayRpcError": record(
        _OFFER,
        jsonrpc=_RPC_VERSION,
        id=_ANY_ID,
        error=record(code=INTEGER, message=STRING, data=_ERROR_DATA),
    ),
    "NodeRpcError": record(
        jsonrpc=_RPC_VERSION, id=_ANY_ID, error=record({"data": ANYTHING}, code=INTEGER, message=STRING)
    ),
    "Refused": {"anyOf": [ref("HttpError"), ref("GatewayRpcError")]},
}

_RPC: dict[str, Schema] = {
    "RpcCall": record(
        {"params": {"type": ["array", "object", "null"], "description": "an array; an object is answered with -32602"}},
        jsonrpc=_RPC_VERSION,
        id={"type": ["string", "number", "null"]},
        method={"type": "string", "minLength": 1},
    ),
    "RpcBatch": {
        "type": "array",
        "description": "a batch: a list of 1 to 100 calls",
        "minItems": 1,
        "maxItems": 100,
        "items": {"description": "an RpcCall; another value is answered with an error in its place"},
    },
    "RpcResult": record(jsonrpc=_RPC_VERSION, id=_ANY_ID, result=ANYTHING),
    "RpcReply": {"anyOf": [ref("RpcResult"), ref("GatewayRpcError"), ref("NodeRpcError")]},
    "RpcReplies": {"anyOf": [ref("RpcReply"), list_of(ref("RpcReply"))]},
    "Quote": record(
        credits=COUNT,
        exact=BOOLEAN,
        calls=list_of(
            {
                "anyOf": [
                    record({"reason": STRING}, id=_ANY_ID, method=STRING, credits=COUNT, exact=BOOLEAN),
                    record(id=_ANY_ID, error=record({"data": ANYTHING}, code=INTEGER, message=STRING)),
                ]
            }
        ),
    ),
    "McpMessage": record(
        {
            "id": {"type": ["string", "integer"], "description": "without it, the message is a notification"},
            "params": {"description": "an object; another value is answered with -32602"},
        },
        jsonrpc=_RPC_VERSION,
        method={"type": "string", "minLength": 1},
    ),
}

_DEPOSIT = record(
    signature=STRING, amount_base_units=COUNT, amount_usdc=STRING, credits=COUNT, slot=COUNT, credited_at=SECONDS
)
_BATCH = record(
    id=ANYTHING,
    source={"type": "string", "enum": ["deposit", "referral_bonus", "adjustment"]},
    credits=COUNT,
    remaining=COUNT,
    created_at=SECONDS,
    expires_at=SECONDS,
)
_ACCOUNT: dict[str, Schema] = {
    "Account": record(
        {"credits_of_later_batches": COUNT},
        ok=OK,
        pubkey=PUBKEY,
        balance=COUNT,
        deposit_address=STRING,
        funding=record(
            asset={"const": "USDC"},
            network=NETWORK,
            network_name=STRING,
            deposit_address=STRING,
            credits_per_usdc=COUNT,
            credit_expiry_seconds=COUNT,
            credit_expiry_days=COUNT,
            attribution=STRING,
        ),
        status={"type": "string", "enum": ["active", "suspended"]},
        price_list=STRING,
        total_consumed_credits=COUNT,
        created_at=SECONDS,
        last_deposit=or_null(_DEPOSIT),
        credit_batches=list_of(_BATCH),
        runway=or_null(record(credits_an_hour=COUNT, hours_left=or_null(COUNT), expiring=COUNT)),
    ),
    "Ledger": record(
        {"next_cursor": {"type": ["string", "null"]}},
        entries=list_of(
            record(
                {  # Present if details were asked for.
                    "number": COUNT,
                    **{key: {"type": ["string", "null"]} for key in _DETAILS},
                    "key": or_null(COUNT),
                },
                type={"type": "string", "enum": ENTRY_TYPES},
                amount=INTEGER,
                balance=INTEGER,
                description=STRING,
                timestamp=MOMENT,
            )
        ),
    ),
    "LoggedCalls": record(
        calls=list_of(
            record(
                id=STRING,
                at=MOMENT,
                method={"type": ["string", "null"]},
                outcome=STRING,
                ms={"type": "number"},
                credits=COUNT,
                request_id=STRING,
                key=or_null(COUNT),
            )
        ),
        next_before={"type": ["string", "null"]},
    ),
    "History": record(entries=list_of(record(method=STRING, credits=INTEGER, timestamp=MOMENT))),
    "Usage": record(
        {"from": MOMENT},
        to=MOMENT,
        by=list_of(STRING),
        rows=list_of(record(dict.fromkeys(("method", "hour", "day", "key"), STRING), calls=COUNT, credits=COUNT)),
        totals=record(calls=COUNT, credits=COUNT),
    ),
    "IssuedKey": record(ok=OK, api_key=STRING, message=STRING),
    "Confirmation": record(
        {"credited_to": list_of(STRING)},
        ok=OK,
        credits_added=COUNT,
        new_balance=COUNT,
        already_processed=BOOLEAN,
    ),
    "Challenge": record(
        {"sign_in": {"type": "object"}, "message": STRING},  # With format "sign-in", for wallets in pages.
        challenge={"type": "string", "pattern": "^[0-9a-f]{64}$"},
        expires_in=COUNT,
    ),
    "Session": record(token={"type": "string", "pattern": "^[0-9a-f]{64}$"}, expires_in=COUNT),
    "LoggedOut": record(status={"const": "ok"}),
    "Settled": record(
        {"status": STRING, "error": STRING, "retry_after_secs": COUNT},
        success=BOOLEAN,
        transaction=STRING,
        network=NETWORK,
        message=STRING,
    ),
}

_FLAGS = {"type": "object", "additionalProperties": BOOLEAN}
_UNITS = {"type": "object", "additionalProperties": record(credits=COUNT, per=STRING, available=BOOLEAN)}
_LACKING = list_of({"type": "object", "additionalProperties": STRING})
_STATUS: dict[str, Schema] = {
    "Health": record(
        {
            "fallback_active": BOOLEAN,
            "solanaSlot": COUNT,
            "solanaBlockHeight": COUNT,
            "uptime": COUNT,
            "nodeVersion": STRING,
            "account_owners_away": {"type": "array", "items": COUNT},
            "stream_hub_away": {"type": "boolean", "description": "only while it is: subscriptions are refused"},
            "clocks_disagree": BOOLEAN,
            "sponsor_balance_low": BOOLEAN,
            "retry_after_secs": COUNT,
        },
        status={"type": "string", "enum": ["ok", "degraded", "starting"]},
        paid_traffic_ready=BOOLEAN,
        agave_healthy=BOOLEAN,
        service_profile=record(auth=_FLAGS, services=_FLAGS),
        timestamp=SECONDS,
    ),
    "Pricing": record(
        ok=OK,
        price_list=record(name=STRING, percent=COUNT),
        credits_per_usdc=COUNT,
        minimum_deposit_usdc=STRING,
        credit_expiry_days=COUNT,
        classes={"type": "object", "additionalProperties": {"type": ["integer", "null"]}},
        methods={
            "type": "object",
            "additionalProperties": record(
                **{"class": STRING}, credits={"type": ["integer", "null"]}, available=BOOLEAN
            ),
        },
        outcome_priced={"type": "object"},
        percentage_priced={"type": "object"},
        bulk=_UNITS,
        relay=_UNITS,
        streams={"type": "object"},
        webhooks=_UNITS,
        cached=record(percent=COUNT, credits_min=COUNT),
        consistency=record(header=STRING, words=list_of(STRING), further_credits=COUNT),
        outcomes={"type": "object", "additionalProperties": record(charged=BOOLEAN)},
    ),
    "Capabilities": record(
        ok=OK,
        service_profile=record(auth=_FLAGS, services=_FLAGS),
        services_not_enabled=_LACKING,
        methods=record(available=list_of(STRING), not_enabled=_LACKING),
        subscriptions=record(available=list_of(STRING), not_enabled=_LACKING),
        endpoints=record(available=list_of(STRING), not_enabled=_LACKING),
    ),
    "Landing": record(ok=OK),
    "X402Discovery": record(
        x402Version={"const": 2},
        versions=list_of(INTEGER),
        enabled=BOOLEAN,
        resources=list_of({"type": "object"}),
        settle=STRING,
        pricing=STRING,
        deposit={"type": "object"},
    ),
}


def _bulk(item: str, field: str, value: Schema, **more: Schema) -> Schema:
    results = list_of(record(**{item: STRING, field: value}))
    return record(commitment=STRING, results=results, errors=list_of(record(**{item: STRING}, error=STRING)), **more)


_TOKEN = record(
    mint=STRING, token_account=STRING, program=STRING, amount=STRING, decimals=COUNT, ui_amount_string=STRING
)
_LISTS: dict[str, Schema] = {
    "Balances": _bulk("address", "lamports", COUNT, slot=or_null(COUNT)),
    "TokenBalances": _bulk("owner", "tokens", list_of(_TOKEN)),
    "Transactions": _bulk("signature", "transaction", ANYTHING),
    "TipAccounts": record(ok=OK, tip_accounts=list_of(STRING)),
    "TipFloor": record(ok=OK, tip_floor=ANYTHING),
}

_TRIED: dict[str, Schema] = {
    "http_status": or_null(INTEGER),
    "latency_ms": or_null(COUNT),
    "error": or_null(STRING),
    "response": STRING,
}
_WEBHOOK: dict[str, Schema] = {
    "id": STRING,
    "url": STRING,
    "filter_type": {"type": "string", "enum": ["account", "program", "my_account", "lifecycle", "signal"]},
    "filter_value": or_null(STRING),
    "lifecycle_events": or_null(list_of(STRING)),
    "signal_events": or_null(list_of(STRING)),
    "status": {"type": "string", "enum": ["active", "disabled"]},
    "disabled_reason": or_null(STRING),
    "created_at": SECONDS,
    "last_delivery": or_null(record(event_id=STRING, status=STRING, http_status=or_null(INTEGER), at=SECONDS)),
}
_EVENT: dict[str, Schema] = {
    "kind": STRING,
    "program": STRING,
    "signature": STRING,
    "slot": COUNT,
    "mint": or_null(STRING),
    "accounts": list_of(STRING),
    "quote_asset": or_null(STRING),
    "curve_type": or_null(STRING),
    "complete": or_null(BOOLEAN),
}
_LOGGED: dict[str, Schema] = {"cursor": STRING, "correction": STRING}
_EVENTS: dict[str, Schema] = {
    "Webhook": record({"wallets": list_of(STRING)}, **_WEBHOOK),
    "NewWebhook": record({"wallets": list_of(STRING)}, ok=OK, secret=STRING, **_WEBHOOK),
    "Webhooks": record(ok=OK, webhooks=list_of(ref("Webhook"))),
    "DeletedWebhook": record(ok=OK, id=STRING, deleted={"const": True}),
    "ChangedWebhook": record(ok=OK, webhook=ref("Webhook")),
    "RotatedSecret": record(ok=OK, secret=STRING, previous_valid_until=SECONDS),
    "Deliveries": record(
        ok=OK,
        deliveries=list_of(
            record(
                event_id=STRING,
                status=STRING,
                created_at=SECONDS,
                next_attempt_at=or_null(SECONDS),
                attempts=list_of(record(at=SECONDS, **_TRIED)),
            )
        ),
        next_before=or_null(STRING),
    ),
    "TestDelivery": record(ok=OK, event_id=STRING, delivered=BOOLEAN, **_TRIED),
    "Replayed": record(ok=OK, replayed=ANYTHING),
    "SignalEvent": record({"lamports": ANYTHING, "wallets": list_of(STRING), **_LOGGED}, **_EVENT),
    "RecentSignals": record(ok=OK, events=list_of(ref("SignalEvent")), next_cursor=STRING),
}

# All schemas but those of receipts, which receipt_schemas.py has.
OTHERS: MappingProxyType[str, Schema] = MappingProxyType(
    {**_ERRORS, **_RPC, **_ACCOUNT, **_STATUS, **_LISTS, **_EVENTS}
)
