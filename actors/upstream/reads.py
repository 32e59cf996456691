"""Describes a read: a key that is equal for equal reads, its commitment, and how long its answer stays valid.

Implements: "one upstream request for identical reads in flight" and the slot-pinned cache: the rules.
Pure. coalescing.py shares reads, cache.py stores answers.

| Kept     | What                                                                                             |
|----------|--------------------------------------------------------------------------------------------------|
| FOREVER  | results that cannot change: of finalized blocks and transactions, and the genesis hash             |
| SLOT     | results that name the slot of their bank, at confirmed or finalized: true until that slot moves on |
| IN_FLIGHT| all other reads: nothing is kept                                                                 |

Never shared at all: sends and simulations. At `processed` the bank of a slot is still
being built, so nothing is kept of it.
"""

import re
from enum import IntEnum, unique
from typing import Any

import msgspec
import orjson

from actors.upstream.method_lanes import may_repeat
from actors.upstream.node_health import Commitment
from actors.upstream.node_selection import Need
from actors.upstream.replies import AnswerKind, NodeAnswer


@unique
class Kept(IntEnum):
    IN_FLIGHT = 0
    SLOT = 1
    FOREVER = 2


class Read(msgspec.Struct, frozen=True):
    """key: equal for questions that mean the same. slot: that a block's question names."""

    key: bytes
    kept: Kept
    commitment: Commitment | None  # None: an older word for one, which is left to the node.
    slot: int | None = None


# Of methods whose answers never change once there is one: where the slot is that must be final.
_FOREVER = frozenset(("getGenesisHash", "getBlock", "getBlockTime", "getTransaction"))
_NAMES_SLOT = frozenset(("getBlock", "getBlockTime"))
_SLOT = frozenset(
    (
        *("getAccountInfo", "getMultipleAccounts", "getBalance", "getTokenAccountBalance", "getTokenSupply"),
        *("getTokenAccountsByOwner", "isBlockhashValid", "getFeeForMessage"),
    )
)
_NEVER = frozenset(("simulateTransaction", "simulateBundle"))  # What they are given is rarely the same twice.
_WORDS = {
    "processed": Commitment.PROCESSED,
    "confirmed": Commitment.CONFIRMED,
    "finalized": Commitment.FINALIZED,
    None: Commitment.FINALIZED,
}
_REMEMBERED_MAX, _REMEMBERED_BYTES_MAX = 8_192, 256
_CONTEXT_WITHIN = 256  # A result that names its slot does so first.
_CONTEXT = re.compile(rb'"context":\{[^{}]*?"slot":(\d{1,19})')
_MIN_SLOT = b"minContextSlot"


class _Transaction(msgspec.Struct):
    slot: int


class _TransactionAnswer(msgspec.Struct):
    result: _Transaction


_TRANSACTION_DECODER = msgspec.json.Decoder(_TransactionAnswer)
_remembered: dict[tuple[str, bytes], Read] = {}


def read_of(method: str, params: bytes) -> Read | None:
    """Describe a read. None: it must not be shared. params: the bytes of a JSON array, checked by the gateway."""
    known = _remembered.get((method, params))
    if known is not None:
        return known
    kept = _kept(method)
    if kept is None:
        return None
    read = _read(method, params, kept)
    if len(params) <= _REMEMBERED_BYTES_MAX:
        if len(_remembered) >= _REMEMBERED_MAX:
            _remembered.clear()
        _remembered[method, params] = read
    return read


def need_of(params: bytes) -> Need | None:
    """Return the minimum slot that a read demands (`minContextSlot`). Cheap for reads without one."""
    if _MIN_SLOT not in params:
        return None
    config = _config(_decoded(params))
    slot = config.get("minContextSlot")
    word = config.get("preflightCommitment", config.get("commitment"))  # The first is a send's word for it.
    commitment = _WORDS.get(word) if word is None or type(word) is str else None  # Not every method's is checked.
    return Need(Commitment.FINALIZED if commitment is None else commitment, slot) if type(slot) is int else None


def context_slot(answer: NodeAnswer) -> int | None:
    """Return the slot of the bank that answered, where the result has it."""
    found = _CONTEXT.search(answer.body, 0, _CONTEXT_WITHIN)
    return int(found[1]) if found else None


def is_final(read: Read, answer: NodeAnswer, finalized_slot: int | None) -> bool:
    """Return whether this answer to a FOREVER read can no longer change. finalized_slot: the highest known one."""
    if answer.kind is not AnswerKind.RESULT or is_null(answer):
        return False
    if read.commitment is Commitment.FINALIZED:
        return True  # At finalized a node gives blocks and transactions only once they are.
    slot = read.slot if read.slot is not None else _transaction_slot(answer)
    if read.commitment is None or slot is None or finalized_slot is None:
        return False
    return slot <= finalized_slot


def is_null(answer: NodeAnswer) -> bool:
    """Return whether the result is null: the node does not have it yet, or no longer."""
    return len(answer.body) < 128 and answer.value() == b"null"


def slot_result(answer: NodeAnswer) -> int | None:
    """Return the slot in an answer to getSlot."""
    if answer.kind is not AnswerKind.RESULT:
        return None
    value = answer.value()
    return int(value) if value.isdigit() and len(value) <= 19 else None


def _kept(method: str) -> Kept | None:
    if method in _SLOT:
        return Kept.SLOT
    if method in _FOREVER:
        return Kept.FOREVER
    return Kept.IN_FLIGHT if may_repeat(method) and method not in _NEVER else None


def _read(method: str, params: bytes, kept: Kept) -> Read:
    arguments = _decoded(params)
    config = _config(arguments)
    word = config.get("commitment")
    commitment = _WORDS.get(word) if word is None or type(word) is str else None
    if method == "getBlockTime":
        commitment = Commitment.CONFIRMED  # It takes none, and is given before the block is final.
    slot = arguments[0] if method in _NAMES_SLOT and arguments and type(arguments[0]) is int else None
    if method in _NAMES_SLOT and slot is None:
        kept = Kept.IN_FLIGHT
    if kept is Kept.SLOT and commitment not in (Commitment.CONFIRMED, Commitment.FINALIZED):
        kept = Kept.IN_FLIGHT
    canonical = _canonical(arguments) if _is_exact(arguments) else params
    return Read(b"%b %b" % (method.encode(), canonical), kept, commitment, slot)


def _decoded(params: bytes) -> list[Any]:
    value = orjson.loads(params)
    assert type(value) is list, "the door lets arrays through alone"
    return value


def _config(arguments: list[Any]) -> dict[str, Any]:
    return arguments[-1] if arguments and type(arguments[-1]) is dict else {}


def _canonical(arguments: list[Any]) -> bytes:
    """Rewrite parameters without spaces and defaults, and with names in order."""
    if arguments and type(arguments[-1]) is dict:
        kept = {
            name: value
            for name, value in arguments[-1].items()
            if value is not None and not (name == "commitment" and value == "finalized")
        }
        arguments = [*arguments[:-1], kept] if kept else arguments[:-1]
    return orjson.dumps(arguments, option=orjson.OPT_SORT_KEYS)


def _is_exact(value: Any) -> bool:
    """Whether decoding lost nothing: a number with a point or beyond 64 bits could have been another before."""
    if type(value) is list:
        return all(_is_exact(item) for item in value)
    if type(value) is dict:
        return all(_is_exact(item) for item in value.values())
    return type(value) is not float


def _transaction_slot(answer: NodeAnswer) -> int | None:
    try:
        return _TRANSACTION_DECODER.decode(answer.body).result.slot
    except msgspec.MsgspecError:
        return None
