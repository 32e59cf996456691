"""Reads the body of a POST to the MCP endpoint: which messages it holds, and which calls they ask for.

Implements: Model Context Protocol 2025-03-26 to 2026-07-28, basic/transports and server/tools; interface, "MCP";
threat 38. Pure. eras.py says of which revision a message is.

A tool call becomes the JSON-RPC call that it stands for, with the same checks. Notifications and responses of a client
are taken and ignored: a server without sessions waits for none.
"""

import base64
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec
import orjson

from actors.errors import Err, Refusal
from actors.gateway.calls import jsonrpc
from actors.gateway.calls.consistency import ANY, MONOTONIC, one_monotonic, parse_consistency
from actors.gateway.calls.jsonrpc import BATCH_CALLS_MAX, BadCall, Call
from actors.gateway.calls.requests import Request
from actors.gateway.doors.mcp import confirmations, eras, tasks
from actors.gateway.doors.mcp.eras import Dialect
from actors.gateway.doors.mcp.tools import GENERIC_TOOL
from actors.methods.values import shown
from actors.units import json_integer

PAYMENT_META = "x402/payment"
MAX_CREDITS_META = "ledger-gateway/max-credits"
CONSISTENCY_META = "ledger-gateway/consistency"


class Free(msgspec.Struct, frozen=True):
    """A request of FREE_METHODS, answered here for everybody. params: as Python values."""

    id: bytes
    method: str
    params: dict[str, Any]


class ToolCall(msgspec.Struct, frozen=True):
    """A tools/call.

    payment: of x402, as the PAYMENT-SIGNATURE header has it; empty where there is none. max_credits: as X-Max-Credits
    has it. consistency: the value of X-Consistency that its _meta has; None: the request's own header counts.
    tool: the name of the tool; empty where there is none of this name, so that a refusal is not the tool's.
    can_confirm: the client can ask its user for a confirmation. state, responses: what it brings back then.
    takes_tasks: the answer may be a task.
    """

    call: Call | BadCall
    payment: bytes = b""
    max_credits: bytes | None = None
    tool: str = ""
    can_confirm: bool = False
    state: str | None = None
    responses: dict[str, Any] = {}
    takes_tasks: bool = False
    consistency: bytes | None = None


class TaskCall(msgspec.Struct, frozen=True):
    """A message about a task, of tasks.TASK_METHODS."""

    id: bytes
    method: str
    task_id: str


class BadEnvelope(msgspec.Struct, frozen=True):
    """A malformed request of a newer revision. http: its status. data: of the error, in addition to our own."""

    id: bytes
    refusal: Refusal
    http: int = 400
    data: Mapping[str, Any] | None = None


class Ignored(msgspec.Struct, frozen=True):
    """A notification, or a response of the client."""


Message = Free | ToolCall | TaskCall | BadCall | BadEnvelope | Ignored
FREE_METHODS = frozenset(("initialize", "ping", "tools/list"))
MODERN_FREE_METHODS = frozenset(("server/discover", "tools/list"))


class _Envelope(msgspec.Struct):
    id: msgspec.Raw = msgspec.Raw()
    params: msgspec.Raw = msgspec.Raw()


class _Arguments(msgspec.Struct):
    params: msgspec.Raw = msgspec.Raw()


class _Params(msgspec.Struct):
    arguments: msgspec.Raw = msgspec.Raw()


_ENVELOPE = msgspec.json.Decoder(_Envelope)
_PARAMS = msgspec.json.Decoder(_Params)
_ARGUMENTS = msgspec.json.Decoder(_Arguments)
_LIST = msgspec.json.Decoder(list[msgspec.Raw])
_NO_ID = jsonrpc.NO_ID


def _invalid(detail: str) -> Refusal:
    return Refusal(Err.INVALID_REQUEST, detail)


_NOT_JSON = _invalid("the body is not valid JSON in UTF-8")
_NOT_MESSAGES = _invalid("the body must be a JSON-RPC message")
_NO_BATCHES = _invalid(f"batches belong to version {eras.OLDEST.version} of the protocol; send one message")
_BAD_BATCH = _invalid(f"a batch holds 1 to {BATCH_CALLS_MAX} messages")
_INITIALIZE_IN_BATCH = _invalid("initialize must not be part of a batch")
_ONE_LIST = _invalid("a batch may ask for tools/list once; this is the second time")
_NO_NAME = '"name" is missing: name a tool, as {"name": "rpc", "arguments": {"method": "getBalance", "params": [...]}}'
_BAD_ID = _invalid('"id" must be a string or a whole number')


class Parsed(msgspec.Struct, frozen=True):
    """One message, or a batch in order; a wholly refused body is one BadCall. dialect: how to answer."""

    content: Message | list[Message]
    dialect: Dialect


def parse(body: bytes, headers: Mapping[bytes, bytes], tools: Collection[str]) -> Parsed:
    """Read a body. headers: those of eras.HEADERS that were sent. tools: names of the methods that are tools."""
    dialect = eras.dialect_of(headers, {})
    if jsonrpc.is_intricate(body):
        return Parsed(BadCall(_NO_ID, jsonrpc.INTRICATE), dialect)
    try:
        value = orjson.loads(body)
        if type(value) is list:
            return Parsed(_batch(body, value, dialect, tools), dialect)
        if type(value) is not dict:
            return Parsed(BadCall(_NO_ID, _NOT_MESSAGES), dialect)
        dialect = eras.dialect_of(headers, value)
        return Parsed(_read(body, value, tools, dialect, headers), dialect)
    except (orjson.JSONDecodeError, msgspec.DecodeError, RecursionError):
        return Parsed(BadCall(_NO_ID, _NOT_JSON), dialect)


def _batch(body: bytes, values: Sequence[Any], dialect: Dialect, tools: Collection[str]) -> BadCall | list[Message]:
    if dialect is not eras.OLDEST:
        return BadCall(_NO_ID, _NO_BATCHES)
    if not 1 <= len(values) <= BATCH_CALLS_MAX:
        return BadCall(_NO_ID, _BAD_BATCH)
    raws = _LIST.decode(body)
    messages: list[Message] = [
        _read(bytes(raw), value, tools, dialect) if type(value) is dict else BadCall(_NO_ID, _NOT_MESSAGES)
        for raw, value in zip(raws, values, strict=True)
    ]
    lists = 0
    for index, message in enumerate(messages):
        if isinstance(message, Free) and message.method == "initialize":
            messages[index] = BadCall(message.id, _INITIALIZE_IN_BATCH)
        elif isinstance(message, Free) and message.method == "tools/list":
            lists += 1
            if lists > 1:  # All lists are equal, and 100 of them would turn a request of 5 kB into 11 MB.
                messages[index] = BadCall(message.id, _ONE_LIST)
    return messages


def _read(
    raw: bytes,
    value: dict[str, Any],
    tools: Collection[str],
    dialect: Dialect,
    headers: Mapping[bytes, bytes] | None = None,
) -> Message:
    method = value.get("method")
    if value.get("jsonrpc") != "2.0":
        return BadCall(_NO_ID, _invalid('"jsonrpc" must be "2.0"'))
    if method is None and ("result" in value or "error" in value):
        return Ignored()
    if type(method) is not str or not method:
        return BadCall(_NO_ID, _invalid('"method" must be a string that is not empty'))
    if "id" not in value:
        return Ignored()
    envelope = _ENVELOPE.decode(raw)
    raw_id = bytes(envelope.id)
    is_id = type(value["id"]) is str or json_integer(value["id"]) is not None  # Beyond 64 bits it is read as a float.
    if not is_id or len(raw_id) > 4_096:
        return BadCall(_NO_ID, _BAD_ID)
    if dialect.is_modern and (bad := _bad_envelope(raw_id, value, headers or {})) is not None:
        return bad
    params = value.get("params")
    if params is not None and type(params) is not dict:
        return _refused(raw_id, '"params" must be an object')
    if method in (MODERN_FREE_METHODS if dialect.is_modern else FREE_METHODS):
        return Free(raw_id, method, params or {})
    if method == "tools/call":
        asked = _tool_call(raw_id, bytes(envelope.params), params or {}, tools)
        if dialect.is_modern and not isinstance(asked.call, BadCall):
            asked = _with_capabilities(asked, params or {})
        ambiguous = None if isinstance(asked.call, BadCall) else jsonrpc.ambiguity(raw, value)
        return asked if ambiguous is None else BadCall(_NO_ID, ambiguous)
    if dialect.is_modern and method in tasks.TASK_METHODS:
        return _task_call(raw_id, method, params or {})
    unknown = Refusal(Err.METHOD_NOT_FOUND, shown(method))
    return BadEnvelope(raw_id, unknown, 404) if dialect.is_modern else BadCall(raw_id, unknown)


def _bad_envelope(raw_id: bytes, value: dict[str, Any], headers: Mapping[bytes, bytes]) -> BadEnvelope | None:
    refusal = eras.unfit(headers, value)
    if refusal is None:
        return None
    is_version = refusal.err is Err.MCP_VERSION_UNSUPPORTED
    return BadEnvelope(raw_id, refusal, data=eras.unsupported_data(headers, value) if is_version else None)


def _tool_call(raw_id: bytes, raw: bytes, params: dict[str, Any], tools: Collection[str]) -> ToolCall:
    meta = params.get("_meta")
    payment, ceiling = _payment(meta), meta.get(MAX_CREDITS_META) if type(meta) is dict else None
    if payment is None:
        return _no_call(raw_id, f'_meta["{PAYMENT_META}"]: it is nested too deeply')
    if ceiling is not None and (type(ceiling) is not int or not 0 <= ceiling < 10**18):
        return _no_call(raw_id, f'_meta["{MAX_CREDITS_META}"] must be a whole number of credits', payment)
    consistency = meta.get(CONSISTENCY_META) if type(meta) is dict else None
    if consistency not in (None, ANY, MONOTONIC):
        return _no_call(raw_id, f'_meta["{CONSISTENCY_META}"] must be "{ANY}" or "{MONOTONIC}"', payment)
    name, arguments = params.get("name"), params.get("arguments")
    if name is None:
        return _no_call(raw_id, _NO_NAME, payment)
    if type(name) is not str or not (name == GENERIC_TOOL or name in tools):
        return _no_call(
            raw_id, f"there is no tool of this name: {shown(name)}; tools/list names those that there are", payment
        )
    if arguments is not None and type(arguments) is not dict:
        return _no_call(raw_id, '"arguments" must be an object', payment)
    max_credits = None if ceiling is None else str(ceiling).encode()
    return ToolCall(
        *(_call(raw_id, raw, name, arguments or {}), payment, max_credits, name),
        consistency=None if consistency is None else consistency.encode(),
    )


def consistent(asked: ToolCall, request: Request) -> Call | BadCall:
    """Apply X-Consistency from the call's _meta, or else from the request's header. Both were checked."""
    value = request.consistency if asked.consistency is None else asked.consistency
    return one_monotonic(asked.call) if value is not None and parse_consistency(value) is True else asked.call


def _task_call(raw_id: bytes, method: str, params: Mapping[str, Any]) -> TaskCall | BadEnvelope | BadCall:
    """Parse a message about a task. Its envelope was checked."""
    if not tasks.takes_tasks(params["_meta"][eras.CAPABILITIES_META]):
        return BadEnvelope(raw_id, Refusal(Err.MCP_CAPABILITY_MISSING, tasks.EXTENSION), data=tasks.REQUIRED)
    task_id = params.get("taskId")
    if type(task_id) is not str:
        return _refused(raw_id, '"taskId" must be the string that an earlier result had')
    if method == "tasks/update" and type(params.get("inputResponses")) is not dict:
        return _refused(raw_id, '"inputResponses" must be an object')
    return TaskCall(raw_id, method, task_id)


def _with_capabilities(asked: ToolCall, params: Mapping[str, Any]) -> ToolCall:
    """Add the client's capabilities and confirmation to the call. Its envelope was checked."""
    state, responses = params.get("requestState"), params.get("inputResponses")
    if state is not None and type(state) is not str:
        return _no_call(asked.call.id, '"requestState" must be the string that an earlier result had')
    if responses is not None and type(responses) is not dict:
        return _no_call(asked.call.id, '"inputResponses" must be an object')
    capabilities = params["_meta"][eras.CAPABILITIES_META]
    asked = msgspec.structs.replace(asked, takes_tasks=tasks.takes_tasks(capabilities))
    if not confirmations.can_ask(capabilities):
        return asked
    return msgspec.structs.replace(asked, can_confirm=True, state=state, responses=responses or {})


def _no_call(raw_id: bytes, detail: str, payment: bytes = b"") -> ToolCall:
    return ToolCall(_refused(raw_id, detail), payment)


def _call(raw_id: bytes, raw: bytes, name: str, arguments: dict[str, Any]) -> Call | BadCall:
    method: Any = name
    allowed = {"params"}
    if name == GENERIC_TOOL:
        method, allowed = arguments.get("method"), {"params", "method"}
        if type(method) is not str or not method:
            return _refused(raw_id, '"arguments.method" must name a JSON-RPC method')
    for key in arguments:
        if key not in allowed:
            example = '{"method": "getBalance", "params": [...]}' if name == GENERIC_TOOL else '{"params": [...]}'
            return _refused(raw_id, f"unknown argument {shown(key)}; parameters go in an array: {example}")
    sent = b"[]"
    if arguments.get("params") is not None:
        sent = bytes(_ARGUMENTS.decode(bytes(_PARAMS.decode(raw).arguments)).params)
    body = b'{"jsonrpc":"2.0","id":%b,"method":%b,"params":%b}' % (raw_id, orjson.dumps(method), sent)
    call = jsonrpc.parse(body)
    assert not isinstance(call, list), "one object is one call"
    if isinstance(call, BadCall):  # Only the parameters come from the client, so the fault is in them.
        return _refused(raw_id, call.refusal.detail)
    return call


def _payment(meta: Any) -> bytes | None:
    """The payment as its header would carry it: the transport over MCP has the object itself. None: no header can."""
    payment = meta.get(PAYMENT_META) if type(meta) is dict else None
    if type(payment) is not dict:
        return b""
    try:
        return base64.b64encode(orjson.dumps(payment))
    except orjson.JSONEncodeError:  # orjson parses deeper nesting than it writes.
        return None


def _refused(raw_id: bytes, detail: str) -> BadCall:
    return BadCall(raw_id, Refusal(Err.INVALID_PARAMS, detail))
