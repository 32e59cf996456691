"""Reads the body of a POST to the MCP endpoint: which messages it holds, and which calls they ask for.

Implements: Model Context Protocol 2025-03-26 and 2025-06-18, basic/transports and server/tools; interface
interface, "MCP"; threat 38. Pure.

A tool call becomes the JSON-RPC call that it stands for, with the same checks. Notifications and responses of a client
are taken and ignored: a server without sessions waits for none.
"""

import base64
from collections.abc import Collection, Sequence
from typing import Any

import msgspec
import orjson

from actors.errors import Err, Refusal
from actors.gateway.calls import jsonrpc
from actors.gateway.calls.jsonrpc import BATCH_CALLS_MAX, BadCall, Call
from actors.gateway.doors.mcp.tools import GENERIC_TOOL, VERSIONS
from actors.methods.values import shown
from actors.units import json_integer

BATCH_VERSION = VERSIONS[0]  # The later version has no batches.
PAYMENT_META = "x402/payment"


class Free(msgspec.Struct, frozen=True):
    """A request that is answered here, for everybody: initialize, ping or tools/list. params: as Python values."""

    id: bytes
    method: str
    params: dict[str, Any]


class ToolCall(msgspec.Struct, frozen=True):
    """A tools/call. payment: of x402, as the PAYMENT-SIGNATURE header has it; empty where there is none."""

    call: Call | BadCall
    payment: bytes = b""


class Ignored(msgspec.Struct, frozen=True):
    """A notification, or a response of the client."""


Message = Free | ToolCall | BadCall | Ignored
FREE_METHODS = frozenset(("initialize", "ping", "tools/list"))


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
_NO_BATCHES = _invalid(f"batches belong to version {BATCH_VERSION} of the protocol; send one message")
_BAD_BATCH = _invalid(f"a batch holds 1 to {BATCH_CALLS_MAX} messages")
_INITIALIZE_IN_BATCH = _invalid("initialize must not be part of a batch")
_ONE_LIST = _invalid("a batch may ask for tools/list once; this is the second time")
_NO_NAME = '"name" is missing: name a tool, as {"name": "rpc", "arguments": {"method": "getBalance", "params": [...]}}'
_BAD_ID = _invalid('"id" must be a string or a whole number')
_BAD_VERSION = _invalid(f"MCP-Protocol-Version must be one of {', '.join(VERSIONS)}")


def parse(body: bytes, version: str | None, tools: Collection[str]) -> Message | list[Message]:
    """Read one message, or a batch in order. A body that is refused whole is one BadCall.

    version: of the header MCP-Protocol-Version; None: absent. tools: names of the methods that are tools.
    """
    if jsonrpc.is_intricate(body):
        return BadCall(_NO_ID, jsonrpc.INTRICATE)
    try:
        value = orjson.loads(body)
        if type(value) is list:
            return _batch(body, value, version, tools)
        if type(value) is not dict:
            return BadCall(_NO_ID, _NOT_MESSAGES)
        message = _read(body, value, tools)
    except (orjson.JSONDecodeError, msgspec.DecodeError, RecursionError):
        return BadCall(_NO_ID, _NOT_JSON)
    # A client that is about to agree on a version cannot be held to one.
    is_first = isinstance(message, Free) and message.method == "initialize"
    if version is not None and version not in VERSIONS and not is_first:
        return BadCall(_id_of(message), _BAD_VERSION)
    return message


def _batch(body: bytes, values: Sequence[Any], version: str | None, tools: Collection[str]) -> BadCall | list[Message]:
    if version not in (None, BATCH_VERSION):
        return BadCall(_NO_ID, _NO_BATCHES if version in VERSIONS else _BAD_VERSION)
    if not 1 <= len(values) <= BATCH_CALLS_MAX:
        return BadCall(_NO_ID, _BAD_BATCH)
    raws = _LIST.decode(body)
    messages: list[Message] = [
        _read(bytes(raw), value, tools) if type(value) is dict else BadCall(_NO_ID, _NOT_MESSAGES)
        for raw, value in zip(raws, values, strict=True)
    ]
    lists = 0
    for index, message in enumerate(messages):
        if isinstance(message, Free) and message.method == "initialize":
            messages[index] = BadCall(message.id, _INITIALIZE_IN_BATCH)
        elif isinstance(message, Free) and message.method == "tools/list":
            lists += 1
            if lists > 1:  # All are equal, and 100 of them would be 5 MB for a request of 5 kB.
                messages[index] = BadCall(message.id, _ONE_LIST)
    return messages


def _read(raw: bytes, value: dict[str, Any], tools: Collection[str]) -> Message:
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
    params = value.get("params")
    if params is not None and type(params) is not dict:
        return _refused(raw_id, '"params" must be an object')
    if method in FREE_METHODS:
        return Free(raw_id, method, params or {})
    if method == "tools/call":
        params = params or {}
        payment = _payment(params.get("_meta"))
        if payment is None:
            return ToolCall(_refused(raw_id, f'_meta["{PAYMENT_META}"]: it is nested too deeply'))
        call = _call(raw_id, bytes(envelope.params), params, tools)
        ambiguous = None if isinstance(call, BadCall) else jsonrpc.ambiguity(raw, value)
        return ToolCall(call, payment) if ambiguous is None else BadCall(_NO_ID, ambiguous)
    return BadCall(raw_id, Refusal(Err.METHOD_NOT_FOUND, shown(method)))


def _call(raw_id: bytes, raw: bytes, params: dict[str, Any], tools: Collection[str]) -> Call | BadCall:
    name, arguments = params.get("name"), params.get("arguments")
    if name is None:
        return _refused(raw_id, _NO_NAME)
    if type(name) is not str or not (name == GENERIC_TOOL or name in tools):
        return _refused(raw_id, f"there is no tool of this name: {shown(name)}")
    if arguments is None:
        arguments = {}
    if type(arguments) is not dict:
        return _refused(raw_id, '"arguments" must be an object')
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
    if isinstance(call, BadCall):  # All but the parameters was made here, so what is wrong is wrong with them.
        return _refused(raw_id, call.refusal.detail)
    return call


def _payment(meta: Any) -> bytes | None:
    """The payment as its header would carry it: the transport over MCP has the object itself. None: no header can."""
    payment = meta.get(PAYMENT_META) if type(meta) is dict else None
    if type(payment) is not dict:
        return b""
    try:
        return base64.b64encode(orjson.dumps(payment))
    except orjson.JSONEncodeError:  # orjson reads a deeper nesting than it writes.
        return None


def _refused(raw_id: bytes, detail: str) -> BadCall:
    return BadCall(raw_id, Refusal(Err.INVALID_PARAMS, detail))


def _id_of(message: Message) -> bytes:
    match message:
        case Free(id=raw_id) | BadCall(id=raw_id):
            return raw_id
        case ToolCall(call=call):
            return call.id
        case Ignored():
            return _NO_ID
