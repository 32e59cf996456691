"""Parses a request body into calls, or into the reason why it holds none.

Implements: interface, "JSON-RPC gateway"; decisions, "empty batch, notification without id" and "batch
replies"; threats 10 to 13 and 61.
Pure, and on the path of every call: usually two passes of compiled parsers and nothing else.

Anybody can send a body, so the work on the worst body of 256 kB is bounded before it is parsed: its brackets and commas
are counted, and a body with too many is refused. What is left is read in time that grows with the body, not with the
body times its calls (`bench.refused_bodies` measures the worst of them).

orjson judges the whole text (UTF-8, numbers that fit a double, no lone surrogates, nothing after the
end); msgspec then cuts out the exact bytes of id and params, which travel on unchanged.

Where the interface is silent:
- `id` may be a string, a number of any size or form, or null, and comes back byte for byte; any other id is refused.
- `params: null` counts as missing; an object gives parameters by name, which only some methods take (rules.py).
- A body with a name that occurs twice in one object is refused as ambiguous.
- A body with more than BRACKETS_MAX objects and arrays, or more than COMMAS_MAX commas, is refused.
"""

from typing import Any

import msgspec
import orjson

from actors.errors import Err, Refusal
from actors.gateway.calls.refused_work import UNIT_BODY_BYTES, cost_of

BATCH_CALLS_MAX = 100
NO_PARAMS = b"[]"
NO_ID = b"null"  # JSON-RPC 2.0: the id in a reply to a request with an unreadable id.
_DEPTH_MAX = 100  # Agave's parser refuses a depth above 128, and that answer would be billed.
_NO_IDS = frozenset((bool, dict, list))
_PARAMS = frozenset((list, dict, type(None)))
# Brackets and commas in texts count too, as telling them apart costs more than parsing. The largest honest bodies have
# far fewer: a batch of 100 has some 400 brackets, and 256 kB hold 7,500 public keys, with a comma each.
BRACKETS_MAX = 4_096
COMMAS_MAX = 8_192
_PLAIN_BYTES = 4_096  # No shorter body has too many.
_ID_BYTES_MAX = 4_096  # The reply repeats the id; nobody needs a longer one.


class Call(msgspec.Struct, frozen=True):
    """One well-formed call. id, params: the exact bytes sent; arguments: params as Python values, for rules to read: a
    list, or a dict where they are given by name.

    credits_max, cost_max: the most that it may cost, where its price is not known yet: by the payment that came with
    it, and by its X-Max-Credits. monotonic: by its X-Consistency.
    """

    id: bytes
    method: str
    params: bytes
    arguments: list[Any] | dict[str, Any]
    credits_max: int | None = None
    cost_max: int | None = None
    monotonic: bool = False


class BadCall(msgspec.Struct, frozen=True):
    """A refused item of a batch, which has its own error object, or a body that is refused whole.

    cost: of the work on it, in units of one ordinary refused call (calls/refused_work.py). method: the one that it
    names, where this service knows it.
    """

    id: bytes
    refusal: Refusal
    cost: int = 0
    method: str = ""


class _Envelope(msgspec.Struct):
    id: msgspec.Raw = msgspec.Raw()
    params: msgspec.Raw = msgspec.Raw()


_ENVELOPE_DECODER = msgspec.json.Decoder(_Envelope)
_LIST_DECODER = msgspec.json.Decoder(list[msgspec.Raw])


def _invalid(detail: str) -> Refusal:
    return Refusal(Err.INVALID_REQUEST, detail)


NOT_JSON = _invalid("the body is not valid JSON in UTF-8, or holds a number out of range or too deep a nesting")
_NOT_CALLS = _invalid("the body must be a JSON-RPC request object or an array of them")
_EMPTY_BATCH = _invalid("a batch must hold at least one request")
_LONG_BATCH = _invalid(f"a batch may hold at most {BATCH_CALLS_MAX} requests")
_AMBIGUOUS = _invalid("a name occurs twice in one JSON object")
INTRICATE = _invalid(
    f"a body may have at most {BRACKETS_MAX} objects and arrays, and {COMMAS_MAX} commas; those in texts count too"
)
_NOT_OBJECT = _invalid("each request must be an object")
_NO_VERSION = _invalid('"jsonrpc" must be "2.0"')
_NO_METHOD = _invalid('"method" must be a string that is not empty')
_NO_REQUEST_ID = _invalid('"id" is missing; notifications are not served')
_BAD_ID = _invalid('"id" must be a string, a number or null')
_LONG_ID = _invalid(f'"id" may be at most {_ID_BYTES_MAX} bytes long')
_BAD_PARAMS = _invalid('"params" must be an array, or an object')


def parse(body: bytes) -> Call | BadCall | list[Call | BadCall]:
    """A single call, or a batch in order. A body that is refused whole (no JSON, no calls, empty, too long) is one
    BadCall."""
    if len(body) > _PLAIN_BYTES and is_intricate(body):
        return BadCall(NO_ID, INTRICATE, cost_of(body_bytes=len(body)))
    try:
        value = orjson.loads(body)
        if type(value) is dict:
            parsed = _read(body, value)
            return parsed if type(parsed) is Call else _costed(parsed, body)
        if type(value) is list and 1 <= len(value) <= BATCH_CALLS_MAX:
            raws = _LIST_DECODER.decode(body)
            return [_costed(_read(bytes(raw), item), raw) for raw, item in zip(raws, value, strict=True)]
        refusal = _NOT_CALLS if type(value) is not list else _LONG_BATCH if value else _EMPTY_BATCH
    except (orjson.JSONDecodeError, msgspec.DecodeError, RecursionError):
        refusal = NOT_JSON
    return _costed(BadCall(NO_ID, refusal), body)


def id_of(body: bytes, bytes_max: int) -> bytes | None:
    """Return the id for the refusal of an unprocessed request. None: it is a batch, or longer than bytes_max."""
    parsed = parse(body) if len(body) <= bytes_max and body.lstrip()[:1] != b"[" else []
    return None if isinstance(parsed, list) else parsed.id


def is_intricate(body: bytes) -> bool:
    """Return whether a body has too many brackets or commas to be parsed. Counting them in 256 kB takes 0.2 ms."""
    return len(body) > _PLAIN_BYTES and (brackets_of(body) > BRACKETS_MAX or body.count(b",") > COMMAS_MAX)


def brackets_of(body: bytes) -> int:
    return body.count(b"[") + body.count(b"{")


def _costed(parsed: Call | BadCall, raw: bytes | msgspec.Raw) -> Call | BadCall:
    """Add to a refusal its cost of reading: usually less than one ordinary refused call."""
    if type(parsed) is Call:
        return parsed
    body = bytes(raw)
    if len(body) < UNIT_BODY_BYTES:
        return parsed
    return BadCall(parsed.id, parsed.refusal, cost_of(body_bytes=len(body), brackets=brackets_of(body)))  # type: ignore[union-attr]


def _read(raw: bytes, value: Any) -> Call | BadCall:
    if type(value) is not dict:
        return BadCall(NO_ID, _NOT_OBJECT)
    colons = raw.count(b":")
    if colons != len(value) and colons != _usual_names(value) and _has_twins(raw, value, colons):
        return BadCall(NO_ID, _AMBIGUOUS)
    is_long = len(raw) > 2 * _DEPTH_MAX  # Each level has two brackets.
    if is_long and raw.count(b"[") + raw.count(b"{") > _DEPTH_MAX and _is_too_deep(value):
        return BadCall(NO_ID, NOT_JSON)
    envelope = _ENVELOPE_DECODER.decode(raw)
    raw_id = bytes(envelope.id)
    fault = _fault(value, raw_id)
    if fault is not None:
        return BadCall(NO_ID if _bad_id(value, raw_id) else raw_id, fault)
    arguments = value.get("params")
    if arguments is None:
        return Call(raw_id, value["method"], NO_PARAMS, [])
    return Call(raw_id, value["method"], bytes(envelope.params), arguments)


def _fault(value: dict[str, Any], raw_id: bytes) -> Refusal | None:
    if value.get("jsonrpc") != "2.0":
        return _NO_VERSION
    method = value.get("method")
    if type(method) is not str or not method:
        return _NO_METHOD
    if not raw_id or len(raw_id) > _ID_BYTES_MAX or type(value.get("id")) in _NO_IDS:
        return _bad_id(value, raw_id)
    return None if type(value.get("params")) in _PARAMS else _BAD_PARAMS


def _bad_id(value: dict[str, Any], raw_id: bytes) -> Refusal | None:
    if not raw_id:
        return _NO_REQUEST_ID
    if len(raw_id) > _ID_BYTES_MAX:
        return _LONG_ID
    return _BAD_ID if type(value.get("id")) in _NO_IDS else None


def _usual_names(value: dict[str, Any]) -> int:
    """Count the names of a request whose only inner objects are its parameters: the cheap count for the usual case."""
    names = len(value)
    params = value.get("params")
    if type(params) is dict:
        return names + len(params)
    if type(params) is list:
        for item in params:
            if type(item) is dict:
                names += len(item)
    return names


def _has_twins(raw: bytes, value: Any, colons: int) -> bool:
    """Whether a name occurs twice in one object. colons: of raw. Raises RecursionError.

    Each name in the text has a colon after it, and parsing keeps a repeated name once. So equal numbers of colons and
    names mean that no name is repeated. Colons in texts make the numbers differ, and are then left out.
    """
    names = _names(value)
    return colons != names and _colons_outside_texts(raw) != names


def _colons_outside_texts(raw: bytes) -> int:
    """Count them in valid JSON: without escaped characters, every second part between quotation marks is a text."""
    if b"\\" in raw:
        raw = raw.replace(b"\\\\", b"").replace(b'\\"', b"")
    return b"".join(raw.split(b'"')[::2]).count(b":")


def _names(value: Any) -> int:
    """Count the names of all objects."""
    if type(value) is dict:
        return len(value) + sum(_names(item) for item in value.values() if type(item) in (dict, list))
    return sum(_names(item) for item in value if type(item) in (dict, list))


def ambiguity(raw: bytes, value: dict[str, Any]) -> Refusal | None:
    """Why a message is refused in which a name occurs twice. value: raw, decoded.

    For messages of other forms; the calls of a JSON-RPC body are looked at by _read. Raises RecursionError.
    """
    return _AMBIGUOUS if _has_twins(raw, value, raw.count(b":")) else None


def _is_too_deep(value: Any) -> bool:
    """Measure the depth level by level, because recursion would exhaust the stack."""
    level = [value]
    for _ in range(_DEPTH_MAX):
        level = [
            inner
            for item in level
            for inner in (item.values() if type(item) is dict else item)
            if type(inner) in (dict, list)
        ]
        if not level:
            return False
    return True
