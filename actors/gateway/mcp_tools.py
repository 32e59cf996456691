"""The tools of the MCP endpoint: one for each callable JSON-RPC method, and one that takes any method.

Implements: interface specification, "MCP"; decisions, "MCP tool names"; Model Context Protocol 2025-03-26 and
2025-06-18, server/tools. Pure: built once from the catalog and the methods' documents.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from actors import catalog
from actors.catalog import MethodClass
from actors.gateway.admission import Plan
from actors.method_documents import DOCUMENTS
from actors.method_schemas import params_schema

VERSIONS = ("2025-03-26", "2025-06-18")
LATEST_VERSION = VERSIONS[-1]
GENERIC_TOOL = "rpc"

_CHANGING = frozenset((MethodClass.SEND, MethodClass.SEND_AND_CONFIRM, MethodClass.SEND_BUNDLE))
_PARAMS = "parameters of the method, in order, as JSON-RPC takes them"
_INSTRUCTIONS = (
    "Each tool is one JSON-RPC method of a Solana node, and `rpc` takes any of them. `params` is an array, as in "
    "JSON-RPC. A call costs the credits that its description names; initialize, ping and tools/list are free. "
    "tools/call needs a credential: the header X-Api-Key, Authorization: Bearer, or a wallet's signature. GET /pricing "
    "has all prices."
)
_SERVER = {"name": "ledger-gateway", "title": "Ledger Gateway", "version": "0.1.0"}


def initialize_result(requested: Any) -> bytes:
    """The result of `initialize`: the requested version where it is served, else the newest that is."""
    version = requested if requested in VERSIONS else LATEST_VERSION
    return orjson.dumps(
        {
            "protocolVersion": version,
            "capabilities": {"tools": {"listChanged": False}},
            "serverInfo": _SERVER,
            "instructions": _INSTRUCTIONS,
        }
    )


def list_result(plans: Mapping[str, Plan]) -> bytes:
    """The result of `tools/list`. plans: of the callable methods, at their prices."""
    tools = [_tool(plans[name]) for name in sorted(plans)]
    return orjson.dumps({"tools": [*tools, _generic(sorted(plans))]})


def _tool(plan: Plan) -> dict[str, Any]:
    row, document = catalog.METHODS[plan.method], DOCUMENTS[plan.method]
    changes = row.method_class in _CHANGING
    params = params_schema(document) | {"description": _PARAMS}
    if document.example is not None:
        params["examples"] = [list(document.example)]
    schema: dict[str, Any] = {"type": "object", "properties": {"params": params}, "additionalProperties": False}
    if document.required:
        schema["required"] = ["params"]
    return {
        "name": plan.method,
        "title": plan.method,
        "description": f"{document.summary} Costs {_price(plan, row.method_class)}.",
        "inputSchema": schema,
        "annotations": {
            "title": plan.method,
            "readOnlyHint": not changes,
            "destructiveHint": changes,
            # The same signed transaction can land only once, and a read changes nothing.
            "idempotentHint": True,
            "openWorldHint": True,
        },
        "_meta": {
            "ledger-gateway/class": row.method_class.value,
            "ledger-gateway/credits_max": plan.ceiling,
            "ledger-gateway/timeout_ms": plan.timeout_ms,
        },
    }


def _price(plan: Plan, method_class: MethodClass) -> str:
    fixed = method_class not in (MethodClass.SEND_AND_CONFIRM, MethodClass.TRADE_BUILD)
    credits = "1 credit" if plan.ceiling == 1 else f"{plan.ceiling} credits"
    return credits if fixed else f"at most {credits}"


def _generic(methods: Iterable[str]) -> dict[str, Any]:
    return {
        "name": GENERIC_TOOL,
        "title": "Any JSON-RPC method",
        "description": "Calls any JSON-RPC method of this service, at the price of that method.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "method": {"type": "string", "enum": list(methods)},
                "params": {"type": "array", "description": _PARAMS},
            },
            "required": ["method"],
            "additionalProperties": False,
        },
        "annotations": {"title": "Any JSON-RPC method", "readOnlyHint": False, "openWorldHint": True},
    }
