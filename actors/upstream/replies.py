"""Judges a node's answer (result, error or garbage), and returns its bytes under the client's own id.

Implements: decisions, "Errors of the node" (upstream errors pass through untouched), threats 14 and 15 (invalid JSON,
wrong id).
Pure. The only module that reads a node's error texts. gateway/calls/outcomes.py decides what an answer costs.

A node's bytes are never re-encoded: numbers keep their digits and objects their order. Only the id is replaced.
"""

from collections.abc import Callable, Coroutine, Mapping
from enum import IntEnum, unique
from types import MappingProxyType
from typing import Any, Protocol

import msgspec
import orjson

from actors.errors import Err, Refusal
from actors.upstream.large_bodies import ENDS_BYTES, HashedAnswer, LargeBody, place_by_the_ends
from actors.upstream.memory_budget import HeldMemory

CACHE_HIT = "hit"  # Values of `NodeAnswer.cache` and X-Cache.
MADE_ID = b"1"  # In answers made here. Each request to a node has its own id (client.py).
VALIDATED_BYTES_MAX = 256 << 10  # Up to this size every byte is checked, in at most 0.3 ms; above, only both ends.
PARSED_BYTES_MAX = 4 << 20  # Nothing longer is parsed: parsing would block the event loop, for up to 15 ms a MiB.
_MADE_HEAD = b'{"jsonrpc":"2.0","id":' + MADE_ID + b","
_MADE_RESULT_HEAD = _MADE_HEAD + b'"result":'
_MADE_ID = (len(_MADE_HEAD) - 1 - len(MADE_ID), len(_MADE_HEAD) - 1)  # The place of the id in answers made here.
_ID_HEAD = b'{"jsonrpc":"2.0","id":%b,'
_ID_TAIL = b',"id":%b}'
_BEHIND_CODE = -32005  # "Node is behind by 200 slots", "Node is unhealthy".
_NO_SLOT_YET_CODE, _NO_SLOT_YET_TEXT = -32016, "Minimum context slot"
_PURGED_BLOCK_CODES = (
    -32001,
    -32004,
)  # Agave sends the first, the interface names the second (decisions, "Errors of the node").
_PURGED_BLOCK_TEXT = "cleaned up"
_UNAVAILABLE_BLOCK_CODE, _UNAVAILABLE_BLOCK_TEXT = -32004, "Block not available"


@unique
class AnswerKind(IntEnum):
    RESULT = 0  # The node did the work.
    ERROR = 1  # The node answered with a JSON-RPC error.
    GARBAGE = 2  # Bytes that do not answer this call; the connection must not be used again.
    UNREACHABLE = 3  # No connection, or it broke, or the node refused access.
    TIMED_OUT = 4  # No complete answer within the timeout of the method's class.
    OVERSIZED = 5  # Longer than upstream.answer_bytes_max.


class Lease:
    """The memory that a large answer claimed; given back when the last holder drops the answer.

    whole: a task that joins, or has joined, its parts for all holders (whole_bodies.py). None: nobody needed that.
    holding: for whoever sends the answer, which may have to give way to others (memory_budget.py).
    """

    __slots__ = ("_give_back", "holding", "whole")

    def __init__(self, give_back: Callable[[], None], holding: HeldMemory | None = None) -> None:
        self._give_back, self.holding = give_back, holding
        self.whole: Any = None

    def __del__(self) -> None:
        self._give_back()


class NodeAnswer(msgspec.Struct, frozen=True):
    """An answer or a failure. Only RESULT and ERROR have a body, with the place of the id in it.

    first: the body, or its first part where it is large; further: its other parts, which nobody has to copy into one.
    The id is in the first part or in the last. node: name of the node that served the answer. cache: hit, miss or
    coalesced. Both may be empty.
    turned_away: an error by which the node, or a proxy before it, refused to work on the call (HTTP 5xx).
    hashed: the hash for the ledger, of a large answer, as it was made while the body arrived (large_bodies.py).
    """

    kind: AnswerKind
    first: bytes = b""
    id_start: int = 0
    id_end: int = 0
    error_code: int = 0
    error_message: str = ""
    node: str = ""
    cache: str = ""
    lease: Lease | None = None
    turned_away: bool = False
    further: tuple[bytes, ...] = ()
    hashed: HashedAnswer | None = None

    @property
    def answered(self) -> bool:
        return self.kind <= AnswerKind.ERROR

    @property
    def body(self) -> bytes:
        """The whole body. That of a large answer is copied, which takes 5 ms for 10 MB."""
        return b"".join((self.first, *self.further)) if self.further else self.first

    @property
    def size(self) -> int:
        return len(self.first) + sum(map(len, self.further)) if self.further else len(self.first)

    def reply(self, raw_id: bytes) -> bytes:
        """Build the JSON-RPC response to a request with this id."""
        assert self.kind <= AnswerKind.ERROR, self.kind
        if self.further:
            return b"".join(self.reply_parts(raw_id))
        return self.first[: self.id_start] + raw_id + self.first[self.id_end :]

    def reply_parts(self, raw_id: bytes) -> tuple[bytes | memoryview, ...]:
        """Build the response as reply() does, without a copy of the body, which may be large."""
        assert self.answered, self.kind
        parts = [memoryview(part) for part in (self.first, *self.further)]
        place, before = (0, 0) if self.id_end <= len(parts[0]) else (-1, self.size - len(parts[-1]))
        named = parts[place]
        head, tail = named[: self.id_start - before], named[self.id_end - before :]
        # A few bytes around the id go with it, because each part is a separate write.
        around: list[bytes | memoryview] = [head, raw_id, tail]
        if len(head) <= ENDS_BYTES:
            around[:2] = [bytes(head) + raw_id]
        if len(tail) <= ENDS_BYTES:
            around[-2:] = [bytes(around[-2]) + bytes(tail)]
        return (*around, *parts[1:]) if place == 0 else (*parts[:-1], *around)

    def value(self) -> bytes:
        """Return the exact bytes of the result, or of the error object."""
        assert self.answered, self.kind
        parsed = _RAW_DECODER.decode(self.body)
        return bytes(parsed.result if self.kind is AnswerKind.RESULT else parsed.error)


class Node(Protocol):
    """Answers JSON-RPC calls: one node, a pool of nodes, or methods of this service in front of either."""

    async def call(self, method: str, params: bytes, timeout_ms: int) -> NodeAnswer:
        """Make one call. params: the bytes of a JSON array. Raises nothing: a failure is a kind of answer."""
        ...


# Answers one method of this service. Takes checked parameters as JSON, and the timeout in milliseconds; raises nothing.
MethodHandler = Callable[[bytes, int], Coroutine[Any, Any, NodeAnswer]]


class OwnMethods:
    """A Node that asks the handler of a method of this service, and another node for all other methods.

    So the pipeline bills both alike. handlers: by method.
    """

    def __init__(self, node: Node, handlers: Mapping[str, MethodHandler]) -> None:
        self._node, self._handlers = node, MappingProxyType(dict(handlers))

    def call(self, method: str, params: bytes, timeout_ms: int) -> Coroutine[Any, Any, NodeAnswer]:
        handler = self._handlers.get(method)
        return self._node.call(method, params, timeout_ms) if handler is None else handler(params, timeout_ms)


# As MethodHandler, for methods that must know the caller: the second argument is the call's hold, to be released. A
# fourth one is the price of a send that does not land, where that is not the public one.
CallerHandler = Callable[..., Coroutine[Any, Any, NodeAnswer]]


class PiecesAnswer(NodeAnswer, frozen=True):
    """An answer to a call priced by the piece: the pieces requested, and how many of them succeeded."""

    pieces: int = 1
    done: int = 1


class AbsentAnswer(NodeAnswer, frozen=True):
    """An error of a composed method which says that the chain does not have what was asked for: a whole answer."""


class DeferredAnswer(NodeAnswer, frozen=True):
    """An answer to a call whose hold another part ends: it is neither posted nor released for this answer.

    final: a later answer to the same call would say the same. posted: credits that are in the ledger for it by now.
    """

    final: bool = False
    posted: int = 0


class RefusedAnswer(NodeAnswer, frozen=True):
    """No answer: whoever carries the call out refuses it after it was held, so it is released and the client told.

    From a node it means that the node has taken nothing of the call, so another one may be asked, with a send too.
    """

    refusal: Refusal | None = None


class RelayedAnswer(NodeAnswer, frozen=True):
    """An answer of the block engine. http: the status that it came with. bundle_id: of its header; may be empty."""

    http: int = 200
    bundle_id: str = ""


class QuotedAnswer(NodeAnswer, frozen=True):
    """An answer whose price was found while it was made, before anything is held. credits: the price, above zero."""

    credits: int = 0


# Answers one method with such a price. The second argument is the caller's public key; a fourth one is the PriceList of
# the caller's account, where that is not the public one. A refusal or a failure is free.
QuoteHandler = Callable[..., Coroutine[Any, Any, "QuotedAnswer | NodeAnswer | Refusal"]]


GARBAGE = NodeAnswer(AnswerKind.GARBAGE)
UNREACHABLE = NodeAnswer(AnswerKind.UNREACHABLE)
NOT_SENT = NodeAnswer(AnswerKind.UNREACHABLE, error_message="no connection")  # No byte of the call was sent.
TIMED_OUT = NodeAnswer(AnswerKind.TIMED_OUT)
_NO_ROOM = "large answers take all the memory that they may have here, and of it your account has its share"
# The node has answered, and there was no memory for it in all the time of the call.
NO_ROOM = RefusedAnswer(
    AnswerKind.OVERSIZED, refusal=Refusal(Err.SERVICE_TEMPORARILY_UNAVAILABLE, _NO_ROOM, retry_seconds=5)
)
OVERSIZED = NodeAnswer(AnswerKind.OVERSIZED)


class _Error(msgspec.Struct):
    code: int
    message: str = ""


class _Envelope(msgspec.Struct):
    id: msgspec.Raw = msgspec.Raw()
    result: msgspec.Raw = msgspec.Raw()
    error: _Error | None = None


class _RawEnvelope(msgspec.Struct):
    result: msgspec.Raw = msgspec.Raw()
    error: msgspec.Raw = msgspec.Raw()


_DECODER = msgspec.json.Decoder(_Envelope)
_RAW_DECODER = msgspec.json.Decoder(_RawEnvelope)


def judge(body: bytes, node: str = "", lease: Lease | None = None, request_id: bytes = MADE_ID) -> NodeAnswer:
    """Judge a complete response body to the request with this id. node: name of the node that sent the body.

    GARBAGE: the body is not JSON in UTF-8, is not one object, has both or neither of result and error, or has another
    id. A null id says that the node could not read our request, so the call must be free.
    """
    if body.endswith(b"\n"):  # Agave ends its bodies with a line feed.
        body = body[:-1]
    if len(body) > VALIDATED_BYTES_MAX:
        if (place := place_by_the_ends((body,), request_id)) is not None:
            return NodeAnswer(AnswerKind.RESULT, body, *place, node=node, lease=lease)
        if len(body) > PARSED_BYTES_MAX:
            return GARBAGE
    try:
        if not body.isascii():
            body.decode()
        parsed = _DECODER.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return GARBAGE
    result, error = bytes(parsed.result), parsed.error
    whole = bool(result) if error is None else result in (b"", b"null")  # Some nodes send result: null beside an error.
    if not whole or bytes(parsed.id) != request_id:
        return GARBAGE
    code, message = (0, "") if error is None else (error.code, error.message)
    kind = AnswerKind.RESULT if error is None else AnswerKind.ERROR
    if body.endswith(_ID_TAIL % request_id):
        end = len(body) - 1
        place = end - len(request_id), end
    elif body.startswith(_ID_HEAD % request_id):
        place = _id_at_the_start(request_id)
    else:
        body, place = _reordered(kind, body), _MADE_ID
    return NodeAnswer(kind, body, *place, code, message, node, "", lease)


def judge_large(body: LargeBody, node: str, lease: Lease | None, request_id: bytes) -> NodeAnswer | None:
    """Judge a large body as judge() does, in the parts in which it came. None: it has to be joined, and read whole."""
    parts = body.parts()
    if body.size > VALIDATED_BYTES_MAX and (place := place_by_the_ends(parts, request_id)) is not None:
        first, *further = parts
        hashed = body.hashed(place)
        return NodeAnswer(
            AnswerKind.RESULT, first, *place, node=node, lease=lease, further=tuple(further), hashed=hashed
        )
    return GARBAGE if body.size > PARSED_BYTES_MAX else None


def made(result: bytes, node: str = "") -> NodeAnswer:
    """Make a result from the answers of nodes. result: JSON. node: names of these nodes."""
    return NodeAnswer(AnswerKind.RESULT, _MADE_RESULT_HEAD + result + b"}", *_MADE_ID, node=node)


def made_error(code: int, message: str, data: bytes) -> NodeAnswer:
    """Make a JSON-RPC error in a node's own form. data: JSON."""
    error = b'{"code":%d,"message":%b,"data":%b}' % (code, msgspec.json.encode(message), data)
    body = _MADE_HEAD + b'"error":' + error + b"}"
    return NodeAnswer(AnswerKind.ERROR, body, *_MADE_ID, code, message)


def slot_not_reached() -> NodeAnswer:
    """Make the answer of a node that has not reached the minimum slot, for one that has answered from a lower one."""
    return made_error(_NO_SLOT_YET_CODE, f"{_NO_SLOT_YET_TEXT} has not been reached", b"null")


def own_error(err: Err, detail: str, more: Mapping[str, Any]) -> NodeAnswer:
    """Make an error of this service in a node's own form: its data says whose it is (decisions, "Errors of this
    service"), beside more."""
    assert err.row.code is not None, err
    data = msgspec.json.encode({**more, "source": "gateway", "constant": err.name})
    return made_error(err.row.code, Refusal(err, detail).message, data)


def absent(err: Err, detail: str, node: str) -> AbsentAnswer:
    """Make such an error. node: names of the nodes that were asked."""
    own = own_error(err, detail, {})
    return AbsentAnswer(own.kind, own.body, own.id_start, own.id_end, own.error_code, own.error_message, node)


def made_deferred(result: bytes, final: bool = False, posted: int = 0) -> DeferredAnswer:
    """Make a result of a call whose hold another part ends. posted: credits that it has posted by now."""
    body = _MADE_RESULT_HEAD + result + b"}"
    return DeferredAnswer(AnswerKind.RESULT, body, *_MADE_ID, final=final, posted=posted)


def refused(refusal: Refusal) -> RefusedAnswer:
    """Refuse a call that is held already."""
    return RefusedAnswer(AnswerKind.UNREACHABLE, refusal=refusal)


def overloaded(retry_seconds: int | None) -> RefusedAnswer:
    """Refuse a call that a node did not take because it has too many (HTTP 429): the limit is this service's own."""
    err = Err.SERVICE_TEMPORARILY_UNAVAILABLE
    return refused(Refusal(err, "the node takes no more calls at the moment", retry_seconds=retry_seconds))


def made_quoted(result: bytes, credits: int, node: str = "") -> QuotedAnswer:
    """Make a result that has its own price."""
    assert credits > 0, credits
    return QuotedAnswer(AnswerKind.RESULT, _MADE_RESULT_HEAD + result + b"}", *_MADE_ID, node=node, credits=credits)


def made_of_pieces(result: bytes, pieces: int, done: int, node: str = "") -> PiecesAnswer:
    """Make a result of a call that is priced by the piece."""
    assert 0 <= done <= pieces, (done, pieces)
    body = _MADE_RESULT_HEAD + result + b"}"
    return PiecesAnswer(AnswerKind.RESULT, body, *_MADE_ID, node=node, pieces=pieces, done=done)


def concerns_one_node(code: int, message: str) -> bool:
    """Return whether an error concerns this node alone: behind, unhealthy, or without the requested slot."""
    if code == _BEHIND_CODE:
        return "unhealthy" in message or "behind" in message
    return code == _NO_SLOT_YET_CODE and _NO_SLOT_YET_TEXT in message


def lacks_slot(answer: NodeAnswer) -> bool:
    """Return whether a node says that it has not reached the minimum slot of the question."""
    return answer.kind is AnswerKind.ERROR and answer.error_code == _NO_SLOT_YET_CODE


def value_of(answer: NodeAnswer) -> Any:
    """Return the result as Python values; None where the answer is no result."""
    if answer.kind is not AnswerKind.RESULT:
        return None
    try:
        return orjson.loads(answer.value())
    except (orjson.JSONDecodeError, msgspec.DecodeError):  # Only the ends of a large answer were checked.
        return None


def is_purged_block(code: int, message: str) -> bool:
    """Return whether a getBlock error says that the node no longer keeps the slot."""
    return code in _PURGED_BLOCK_CODES and _PURGED_BLOCK_TEXT in message


def is_unavailable_block(code: int, message: str) -> bool:
    """Return whether a getBlock error says that the node does not have the block: not yet, or never."""
    return code == _UNAVAILABLE_BLOCK_CODE and message.startswith(_UNAVAILABLE_BLOCK_TEXT)


def _id_at_the_start(request_id: bytes) -> tuple[int, int]:
    start = len(_ID_HEAD) - len(b"%b,")
    return start, start + len(request_id)


def _reordered(kind: AnswerKind, body: bytes) -> bytes:
    """Put the result or error bytes of another layout (spaces, other order) into a layout with a known id place."""
    raw = _RAW_DECODER.decode(body)
    name, value = (b'"result":', raw.result) if kind is AnswerKind.RESULT else (b'"error":', raw.error)
    return _MADE_HEAD + name + bytes(value) + b"}"
