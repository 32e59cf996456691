"""The OpenAPI 3.1 document of every HTTP path that is served.

Implements: decisions, "402 without credentials" (the answer where other services give 401). Pure: made from the paths
that the doors serve and from the rows of operations.py.
"""

import re
from collections.abc import Iterable
from typing import Any

from actors.documents import guide
from actors.documents.offer import SUMMARY, TITLE, Offer
from actors.documents.operation import Access, Operation
from actors.documents.operations import TAGS, operations_of
from actors.documents.receipt_schemas import SCHEMAS
from actors.documents.schemas import Schema, ref
from actors.methods.context_slots import CONSISTENCIES
from actors.methods.prices import STREAMS
from actors.release import RELEASE

_SEGMENT: Schema = {"type": "string", "pattern": "^[A-Za-z0-9._~-]{1,128}$"}
# A header has no spaces around it, but may have them inside.
_PRINTABLE: Schema = {"type": "string", "pattern": "^[!-~]([ -~]{0,253}[!-~])?$"}
_WALLET: dict[str, list[str]] = {"publicKey": [], "signature": [], "timestamp": [], "nonce": []}
_ANY: list[dict[str, list[str]]] = [{"apiKey": []}, _WALLET, {"sessionToken": []}, {"apiKeyInUrl": []}]
_SECURITY: dict[Access, list[dict[str, list[str]]]] = {
    Access.PUBLIC: [],
    Access.OPTIONAL: [{}, *_ANY],
    Access.ACCOUNT: _ANY,
    Access.WALLET: [_WALLET],
    Access.SESSION: [{"sessionToken": []}],
}
_REASONS = {
    200: "the answer",
    201: "created",
    202: "accepted; there is no answer yet, or none is wanted",
    304: "not changed since the ETag that was sent",
    400: "the request cannot be read, or has parameters of another form",
    401: "the credential is not valid",
    402: "no credential, no account or no credits; the terms of payment are in the body and in payment-required",
    403: "not allowed: a replayed nonce, a denied method, a suspended account, a foreign origin",
    404: "no such thing",
    410: "the month left the ledger: the message says since when entries are kept",
    406: "the answer would be application/json",
    409: "the Idempotency-Key belongs to another request, or its request is still running",
    412: "the request can cost more than its X-Max-Credits",
    415: "the Content-Type must be application/json",
    429: "too many requests; Retry-After tells when to go on",
    500: "a fault of this service",
    502: "the node cannot be reached",
    503: "not possible at the moment; Retry-After tells when to try again",
    504: "no answer in the time of the method",
}
_OF_ACCOUNTS = (
    "X-Credits-Remaining",
    "X-Credits-Low",
    "X-Ratelimit-Limit",
    "X-Ratelimit-Remaining",
    "X-Ratelimit-Reset",
)
_HEADERS: dict[str, tuple[str, Schema]] = {
    "X-Credits-Remaining": ("credits of the account, less what is held", {"type": "integer", "minimum": 0}),
    "X-Credits-Low": ("the account has fewer than 1,000 credits", {"type": "string", "const": "true"}),
    "X-Credits-Cost": ("credits that are posted for this answer; 0: it is free", {"type": "integer", "minimum": 0}),
    "X-Receipt": (
        "operations of the charges; GET /account/ledger?operation= has the entry of each",
        {"type": "string"},
    ),
    "X-Ratelimit-Limit": ("requests a second of this account", {"type": "integer", "minimum": 0}),
    "X-Ratelimit-Remaining": ("of this second", {"type": "integer", "minimum": 0}),
    "X-Ratelimit-Reset": ("Unix second in which the window ends", {"type": "integer", "minimum": 0}),
}


def document(offer: Offer) -> dict[str, Any]:
    operations = operations_of(offer.served)
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation)
    _add_links(paths, operations)
    for path, methods in paths.items():
        names = re.findall(r"\{([a-z_]+)\}", path)
        if names:
            methods["parameters"] = [
                {"name": name, "in": "path", "required": True, "schema": _SEGMENT} for name in names
            ]
    used = {operation.tag for operation in operations}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": TITLE,
            "version": RELEASE,
            "summary": SUMMARY,
            "description": (
                "A request without any credential is answered with 402 and the terms of payment, where other services "
                "answer 401. JSON-RPC methods and their prices are in /openrpc.json. Errors of nodes have HTTP 200. "
                "WebSocket and gRPC, which OpenAPI has no words for, are in /docs, /llms.txt and the field x-streams."
            ),
        },
        "servers": [{"url": offer.public_url}],
        "x-streams": _streams(offer),
        "tags": [{"name": name, "description": text} for name, text in TAGS.items() if name in used],
        "paths": paths,
        "components": {
            "schemas": dict(SCHEMAS),
            "securitySchemes": _schemes(),
            "headers": {name: {"description": text, "schema": schema} for name, (text, schema) in _HEADERS.items()},
        },
    }


def _streams(offer: Offer) -> dict[str, Any]:
    streams, found = offer.streams, dict[str, Any]()
    if streams.subscriptions:
        rows = [{"subscribe": row.name, "unsubscribe": row.unsubscribe} for row in streams.subscriptions]
        found["websocket"] = {"url": guide.websocket_url(offer), "subprotocols": ["solana-rpc", "auth.<API key>"]}
        found["websocket"] |= {"subscriptions": rows, "prices": [dict(STREAMS["websocket"]), dict(STREAMS["signals"])]}
    if streams.grpc_target:
        found["grpc"] = {"target": streams.grpc_target, "tls": streams.grpc_is_tls, "service": "geyser.Geyser"}
        found["grpc"] |= {"metadata": {"x-token": "<API key or session token>"}, "prices": dict(STREAMS["grpc"])}
    return found


def _add_links(paths: dict[str, dict[str, Any]], operations: Iterable[Operation]) -> None:
    """Link the creation of a thing to the operations that take its id."""
    for row in operations:
        collection = row.path.partition("/{id}")[0]
        creation = paths.get(collection, {}).get("post")
        if creation is None or collection == row.path:
            continue
        link = {"operationId": _operation_id(row), "parameters": {"id": "$response.body#/id"}}
        creation["responses"]["201"].setdefault("links", {})[_operation_id(row)] = link


def _operation_id(row: Operation) -> str:
    words = re.findall(r"[A-Za-z0-9]+", row.path) or ["calls"]
    return row.method.lower() + "".join(word[:1].upper() + word[1:] for word in words)


def _operation(row: Operation) -> dict[str, Any]:
    found: dict[str, Any] = {
        "operationId": _operation_id(row),
        "tags": [row.tag],
        "summary": row.summary,
        "security": _SECURITY[row.access],
        "responses": {str(status): _response(row, status) for status in sorted(statuses(row))},
        "x-price": row.price or "free",
    }
    parameters = [
        *({"name": name, "in": "query", "required": False, "schema": schema} for name, schema in row.query),
        *(_header_parameters(row)),
    ]
    if parameters:
        found["parameters"] = parameters
    if row.request is not None:
        found["requestBody"] = {
            "required": row.needs_body,
            "content": {"application/json": {"schema": row.request}},
        }
    return found


def statuses(row: Operation) -> set[int]:
    """Return every status with which this path answers."""
    found = {*row.successes, *row.refusals, 400, 500}
    if row.access is not Access.PUBLIC:
        found |= {401, 402, 429}
    return found | ({429} if row.is_limited else set())


def _response(row: Operation, status: int) -> dict[str, Any]:
    response: dict[str, Any] = {"description": _REASONS[status]}
    is_success = status in row.successes
    if not (status == 304 or (status == 202 and row.path == "/mcp")):
        schema = row.answer if is_success else ref("Refused")
        if row.path == "/x402/settle":
            schema = {"anyOf": [row.answer, ref("HttpError")]}
        content_type = row.content_type if is_success else "application/json"
        response["content"] = {content_type: {"schema": schema}}
        for other in row.other_types if is_success else ():
            text = {"type": "string"} if other.startswith("text/") else {"type": "string", "format": "binary"}
            response["content"][other] = {"schema": text}
    names = list(_OF_ACCOUNTS) if row.access in (Access.ACCOUNT, Access.OPTIONAL) and status not in (400, 402) else []
    if row.is_call:
        names += ["X-Credits-Cost", "X-Receipt"] if is_success else ["X-Credits-Cost"]
    if names:
        response["headers"] = {name: {"$ref": f"#/components/headers/{name}"} for name in names}
    return response


def _header_parameters(row: Operation) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    if row.is_call or row.has_limit:
        schema = {"type": "string", "pattern": "^[0-9]{1,18}$"}
        text = (
            "end the answer before it costs more" if row.has_limit else "refuse the request if it can cost more credits"
        )
        found.append(_header("X-Max-Credits", text, schema))
    if (row.is_call and not row.path.startswith("/relay/")) or row.path == "/quote":
        text = "monotonic: no answer is older than the monotonic reads of the account before it; the price is the same"
        found.append(
            _header("X-Consistency", text, {"type": "string", "enum": list(CONSISTENCIES), "default": CONSISTENCIES[0]})
        )
    if row.has_key:
        text = "of a call that moves money: carry it out once; 1 to 255 printable ASCII characters"
        found.append(_header("Idempotency-Key", text, _PRINTABLE))
    if 304 in row.successes:
        found.append(_header("If-None-Match", "an ETag of an earlier answer", {"type": "string"}))
    return found


def _header(name: str, text: str, schema: Schema) -> dict[str, Any]:
    return {"name": name, "in": "header", "required": False, "description": text, "schema": schema}


def _schemes() -> dict[str, Any]:
    def in_header(name: str, text: str) -> dict[str, str]:
        return {"type": "apiKey", "in": "header", "name": name, "description": text}

    message = f"{guide.SIGNED_MESSAGE}, BODY_HASH: SHA-256 of the body in lower-case hex, empty for GET"
    return {
        "apiKey": in_header("X-Api-Key", "of POST /account/api-key"),
        "apiKeyInUrl": {"type": "apiKey", "in": "query", "name": "api-key", "description": "can be logged on the way"},
        "sessionToken": {"type": "http", "scheme": "bearer", "description": "of POST /auth/verify"},
        "publicKey": in_header("X-Pubkey", "the wallet's public key in base58"),
        "signature": in_header("X-Signature", f"the wallet's Ed25519 signature, in base58, of {message}"),
        "timestamp": in_header("X-Timestamp", "Unix seconds, as in the signed text"),
        "nonce": in_header("X-Nonce", "as in the signed text; used once"),
    }
