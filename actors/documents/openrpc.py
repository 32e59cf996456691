"""The OpenRPC document of every JSON-RPC method that can be called.

Implements: interface, "Method classes and credits". Pure: made from the catalog and the methods'
documents. The results of nodes are passed through, so their schemas admit more than is known of them.
"""

from typing import Any

from actors.documents.offer import SUMMARY, TITLE, Method, Offer
from actors.errors import Err
from actors.methods.forms import nullable
from actors.release import RELEASE

_ERRORS = (
    Err.INVALID_PARAMS,
    Err.PAYMENT_REQUIRED,
    Err.INSUFFICIENT_CREDITS,
    Err.MAX_CREDITS_EXCEEDED,
    Err.KEY_BUDGET_EXCEEDED,
    Err.HOURLY_LIMIT_EXCEEDED,
    Err.RATE_LIMITED,
    Err.BACKEND_UNAVAILABLE,
    Err.SERVICE_TEMPORARILY_UNAVAILABLE,
    Err.TIMEOUT,
)


def document(offer: Offer) -> dict[str, Any]:
    return {
        "openrpc": "1.3.2",
        "info": {
            "title": TITLE,
            "version": RELEASE,
            "description": f"{SUMMARY} Parameters travel in an array. GET /pricing has all prices, in credits.",
        },
        "servers": [{"name": "HTTP", "url": f"{offer.public_url}/rpc"}],
        "methods": [_method(method) for method in offer.methods],
        "components": {
            "errors": {
                err.name: {"code": err.row.code, "message": err.row.message, "data": {"constant": err.name}}
                for err in _ERRORS
            }
        },
    }


def _method(method: Method) -> dict[str, Any]:
    row, described = method.row, method.document
    found: dict[str, Any] = {
        "name": row.name,
        "summary": described.summary,
        "description": f"Costs {method.price}." if method.price != "free" else "Costs no credits.",
        "tags": [{"name": row.method_class.value}],
        "paramStructure": "by-position",
        "params": [
            {
                "name": parameter.name,
                "required": parameter.is_required,
                "schema": dict(parameter.schema) if parameter.is_required else nullable(parameter.schema),
            }
            for parameter in described.parameters
        ],
        "result": {"name": "result", "schema": dict(described.result)},
        "errors": [{"$ref": f"#/components/errors/{err.name}"} for err in _ERRORS],
        "x-credits-max": method.credits_max,
        "x-timeout-ms": row.timeout_ms,
    }
    if described.example:
        names = [parameter.name for parameter in described.parameters]
        values = [{"name": name, "value": value} for name, value in zip(names, described.example, strict=False)]
        found["examples"] = [{"name": "a call", "params": values, "result": {"name": "result", "value": None}}]
    return found
