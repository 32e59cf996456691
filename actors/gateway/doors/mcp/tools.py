"""The tools of the MCP endpoint: one for each callable JSON-RPC method, and one that takes any method.

Implements: interface, "MCP"; decisions, "MCP tool names" and "MCP revisions"; Model Context Protocol 2025-03-26 to
2026-07-28, server/tools, server/discover and server/utilities/caching. Pure: built once from the catalog and the
methods' documents.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from actors.gateway.calls.admission import Plan
from actors.gateway.doors.mcp.answers import SERVER, TEXT_ONLY
from actors.gateway.doors.mcp.eras import LATEST_OLDER, MODERN, OLDER
from actors.gateway.doors.mcp.tasks import EXTENSION
from actors.methods import catalog, entries
from actors.methods.catalog import DOCUMENTS
from actors.methods.forms import MethodDocument, Schema, params_schema
from actors.methods.prices import MethodClass
from actors.pricing_config import PricingConfig

GENERIC_TOOL = "rpc"
GENERIC_EXAMPLE = '{"method": "getBalance", "params": ["So11111111111111111111111111111111111111112"]}'

_CHANGING = frozenset((MethodClass.SEND, MethodClass.SEND_AND_CONFIRM, MethodClass.SEND_BUNDLE))
_PARAMS = "parameters of the method, in order, as JSON-RPC takes them"
_INSTRUCTIONS = (
    "Each tool is one JSON-RPC method of a Solana node, and `rpc` takes any of them. `params` is an array, as in "
    "JSON-RPC. initialize, ping and tools/list are free. tools/call needs a credential: the header X-Api-Key, "
    "Authorization: Bearer, or a wallet's signature. GET /pricing has all prices, and POST /quote tells the price of a "
    "call before it is made. The tools by the price of a call:"
)
_CAPABILITIES = {"tools": {"listChanged": False}}
# The last two occur in a refused call, with `isError`.
_IN_PLACE_OF_A_RESULT = (
    {"title": "too large: the text has it", "properties": {TEXT_ONLY: {"const": True}}, "required": [TEXT_ONLY]},
    {"title": "refused", "required": ["error"]},
    {"title": "terms of payment, x402", "required": ["x402Version", "accepts"]},
)
LIST_TTL_MS = 300_000  # Tools and prices change only with a deployment.


def instructions(plans: Mapping[str, Plan], pricing: PricingConfig) -> str:
    """Name the callable methods by their prices: `initialize` tells agents the whole catalog of tools."""
    named: dict[str, list[str]] = {}
    for name in sorted(plans, key=lambda name: (plans[name].ceiling, name)):
        named.setdefault(_price(name, pricing)[0], []).append(name)
    return "\n".join((_INSTRUCTIONS, *(f"- {price}: {', '.join(names)}" for price, names in named.items())))


def initialize_result(requested: Any, instructions: str) -> bytes:
    """Make the result of `initialize`: the requested version if it is served, else the newest one."""
    version = requested if type(requested) is str and requested in OLDER else LATEST_OLDER.version
    return orjson.dumps(
        {
            "protocolVersion": version,
            "capabilities": _CAPABILITIES,
            "serverInfo": SERVER,
            "instructions": instructions,
        }
    )


def discover_result(instructions: str, has_tasks: bool) -> bytes:
    """Make the result of `server/discover`: only newer revisions, because `initialize` negotiates older ones."""
    extensions: dict[str, Any] = {"extensions": {EXTENSION: {}}} if has_tasks else {}
    return orjson.dumps(
        {
            "supportedVersions": [MODERN.version],
            "capabilities": _CAPABILITIES | extensions,
            "instructions": instructions,
            "ttlMs": LIST_TTL_MS,
            "cacheScope": "public",
        }
    )


def list_result(plans: Mapping[str, Plan], pricing: PricingConfig) -> bytes:
    """The result of `tools/list`, in one order. plans: of the callable methods, at their prices.

    The list is the same for everybody, so it may be shared: the newer revision's hints say so, and older clients
    pass over them.
    """
    tools = [_tool(plans[name], pricing) for name in sorted(plans)]
    return orjson.dumps({"tools": [*tools, _generic(sorted(plans))], "ttlMs": LIST_TTL_MS, "cacheScope": "public"})


def example_of(document: MethodDocument) -> str:
    """Return JSON of arguments that the call accepts, once the parts between < and > are filled in."""
    if document.example is None:
        return f'{{"params": {document.sketch}}}'
    return json.dumps({"params": list(document.example)} if document.example else {})


def examples(plans: Iterable[str]) -> dict[str, str]:
    """Return the example of each tool, by its name."""
    return {name: example_of(DOCUMENTS[name]) for name in plans} | {GENERIC_TOOL: GENERIC_EXAMPLE}


def _description(what: str, when: str, price: str, example: str) -> str:
    """Describe the tool, one line each: what it does, when to use it, its price, and example arguments."""
    return f"{what}\n{when}\n{price}\nExample of arguments: {example}"


def _price(name: str, pricing: PricingConfig) -> tuple[str, int | None]:
    words, most = entries.price_of(catalog.METHODS[name], pricing)
    return "no credits" if most == 0 else words, most


def _tool(plan: Plan, pricing: PricingConfig) -> dict[str, Any]:
    row, document = catalog.METHODS[plan.method], DOCUMENTS[plan.method]
    price, most = _price(plan.method, pricing)
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
        "description": _description(document.summary, document.when, f"Costs {price}.", example_of(document)),
        "inputSchema": schema,
        "outputSchema": output_schema(document.result),
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
            "ledger-gateway/credits_max": most,  # Null: POST /quote tells it.
            "ledger-gateway/timeout_ms": plan.timeout_ms,
        },
    }


def output_schema(result: Schema) -> dict[str, Any]:
    """Return the schema of `structuredContent` of a tool whose method has this schema of results.

    It is an object in every revision: a value that is none is in `result`. Clients hold every structured content
    against the schema, so what comes in place of a result is admitted, too.
    """
    given = result.get("type")
    if given is None:
        return {"type": "object"}
    kinds = given if isinstance(given, list) else [given]
    forms: list[dict[str, Any]] = []
    if "object" in kinds:
        forms.append({**result, "type": "object"})
    others = [kind for kind in kinds if kind != "object"]
    if others:
        value = {"type": others[0]} if "object" in kinds else dict(result)
        forms.append({"properties": {"result": value}, "required": ["result"]})
    return {"type": "object", "anyOf": [*forms, *_IN_PLACE_OF_A_RESULT]}


def _generic(methods: Iterable[str]) -> dict[str, Any]:
    return {
        "name": GENERIC_TOOL,
        "title": "Any JSON-RPC method",
        "description": _description(
            "Calls any JSON-RPC method of this service.",
            "Use it when your host shows you few tools; a method's own tool says what its parameters are.",
            "Costs what the method costs.",
            GENERIC_EXAMPLE,
        ),
        "inputSchema": {
            "type": "object",
            "properties": {
                "method": {"type": "string", "enum": list(methods)},
                "params": {"type": "array", "description": _PARAMS},
            },
            "required": ["method"],
            "additionalProperties": False,
        },
        "outputSchema": output_schema({}),
        "annotations": {"title": "Any JSON-RPC method", "readOnlyHint": False, "openWorldHint": True},
    }
