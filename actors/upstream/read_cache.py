"""Describes reads, and caches their answers: which reads are equal, and how long an answer stays valid.

Implements: "one upstream request for identical reads in flight" and the slot-pinned cache: the rules.
Pure: seconds of a monotonic clock arrive as arguments. coalescing.py shares the requests.

| Kept      | Reads                                                                                               |
|-----------|-----------------------------------------------------------------------------------------------------|
| FOREVER   | results that cannot change: of finalized blocks and transactions, and the genesis hash                |
| SLOT      | results that name the slot of their bank, at confirmed or finalized: valid until that slot moves on   |
| IN_FLIGHT | all other reads: no answer is kept. At `processed` the bank of a slot is still being built.           |

Sends and simulations are never shared. A SLOT answer may be used again only while its slot is the newest at the
requested commitment; coalescing.py asks a node for that slot before every such hit. The cache is limited by bytes, and
removes the least recently used answer first.
"""

import re
from collections import OrderedDict
from dataclasses import dataclass, field
from enum import IntEnum, unique
from typing import Any

import msgspec
import orjson

from actors.upstream.method_lanes import may_repeat
from actors.upstream.node_health import COMMITMENTS, Commitment
from actors.upstream.replies import CACHE_HIT, AnswerKind, NodeAnswer


@unique
class Kept(IntEnum):
    IN_FLIGHT = 0
    SLOT = 1
    FOREVER = 2


class Read(msgspec.Struct, frozen=True):
    """key: equal for reads that mean the same. slot: the slot of a block that the parameters name."""

    key: bytes
    kept: Kept
    commitment: Commitment | None  # None: a word that is left to the node.
    slot: int | None = None


_NAMES_SLOT = frozenset(("getBlock", "getBlockTime"))
_KEPT_BY_METHOD = {
    **dict.fromkeys(("getGenesisHash", "getBlock", "getBlockTime", "getTransaction"), Kept.FOREVER),
    **dict.fromkeys(("getAccountInfo", "getMultipleAccounts", "getBalance", "getTokenAccountBalance"), Kept.SLOT),
    **dict.fromkeys(("getTokenSupply", "getTokenAccountsByOwner", "isBlockhashValid", "getFeeForMessage"), Kept.SLOT),
}
# Simulations rarely have the same parameters twice.
_SIMULATIONS = frozenset(("simulateTransaction", "simulateBundle"))
_DESCRIBED_MAX, _DESCRIBED_PARAMS_BYTES_MAX = 8_192, 256
_CONTEXT_WITHIN = 256  # A result that names its slot does so in its first bytes.
_CONTEXT = re.compile(rb'"context":\{[^{}]*?"slot":(\d{1,19})')


class _Transaction(msgspec.Struct):
    slot: int


class _TransactionAnswer(msgspec.Struct):
    result: _Transaction


_TRANSACTION_DECODER = msgspec.json.Decoder(_TransactionAnswer)
_described: dict[tuple[str, bytes], Read] = {}


def read_of(method: str, params: bytes) -> Read | None:
    """Describe a read. None: it must not be shared. params: the bytes of a JSON array, checked by the gateway."""
    known = _described.get((method, params))
    if known is not None:
        return known
    kept = _KEPT_BY_METHOD.get(method, Kept.IN_FLIGHT)
    if kept is Kept.IN_FLIGHT and (method in _SIMULATIONS or not may_repeat(method)):
        return None
    read = _read(method, params, kept)
    if len(params) <= _DESCRIBED_PARAMS_BYTES_MAX:
        if len(_described) >= _DESCRIBED_MAX:
            _described.clear()
        _described[method, params] = read
    return read


def is_null(answer: NodeAnswer) -> bool:
    """Return whether the result is null: the node does not have it yet, or no longer."""
    return answer.size < 128 and answer.value() == b"null"


def slot_result(answer: NodeAnswer) -> int | None:
    """Return the slot in an answer to getSlot."""
    if answer.kind is not AnswerKind.RESULT:
        return None
    value = answer.value()
    return int(value) if value.isdigit() and len(value) <= 19 else None


def _read(method: str, params: bytes, kept: Kept) -> Read:
    arguments = orjson.loads(params)
    assert type(arguments) is list, "the gateway accepts only arrays"
    config = arguments[-1] if arguments and type(arguments[-1]) is dict else {}
    word = config.get("commitment")
    commitment = COMMITMENTS.get(word) if word is None or type(word) is str else None
    if method == "getBlockTime":
        commitment = Commitment.CONFIRMED  # getBlocks has no such parameter, and is answered before the block is final.
    slot = arguments[0] if method in _NAMES_SLOT and arguments and type(arguments[0]) is int else None
    if method in _NAMES_SLOT and slot is None:
        kept = Kept.IN_FLIGHT
    if kept is Kept.SLOT and commitment not in (Commitment.CONFIRMED, Commitment.FINALIZED):
        kept = Kept.IN_FLIGHT
    canonical = _canonical(arguments) if _is_exact(arguments) else params
    return Read(b"%b %b" % (method.encode(), canonical), kept, commitment, slot)


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
    """Return whether decoding lost nothing; it rounds numbers with a point and numbers beyond 64 bits."""
    if type(value) is list:
        return all(_is_exact(item) for item in value)
    if type(value) is dict:
        return all(_is_exact(item) for item in value.values())
    return type(value) is not float


def _context_slot(answer: NodeAnswer) -> int | None:
    """Return the slot of the bank that answered, where the result names it."""
    found = _CONTEXT.search(answer.first, 0, _CONTEXT_WITHIN)
    return int(found[1]) if found else None


def _is_final(read: Read, answer: NodeAnswer, finalized_slot: int | None) -> bool:
    """Return whether this result of a FOREVER read can no longer change. finalized_slot: the highest known one."""
    if is_null(answer):
        return False
    if read.commitment is Commitment.FINALIZED:
        return True  # At finalized a node returns only finalized blocks and transactions.
    slot = read.slot if read.slot is not None else _transaction_slot(answer)
    return read.commitment is not None and slot is not None and finalized_slot is not None and slot <= finalized_slot


def _transaction_slot(answer: NodeAnswer) -> int | None:
    try:
        return _TRANSACTION_DECODER.decode(answer.body).result.slot
    except msgspec.MsgspecError:
        return None


# --- the cache --------------------------------------------------------------------------------------------------------

HIT, MISS, COALESCED = CACHE_HIT, "miss", "coalesced"
_OVERHEAD_BYTES = 400  # Memory of the key and the objects of an entry.
_LARGEST_SHARE = 4  # One answer may fill a quarter of the cache.
_PINNED_SECONDS = 0.4  # The length of a slot: an older answer is almost certainly outdated, so no node is asked.


@dataclass(frozen=True, slots=True)
class CachedAnswer:
    """slot: of the bank that answered; None: valid for ever. asked_at: seconds, when the node was asked."""

    answer: NodeAnswer
    slot: int | None
    asked_at: float
    size: int


@dataclass(slots=True)
class ReadCache:
    bytes_max: int
    bytes_used: int = 0
    entries: OrderedDict[bytes, CachedAnswer] = field(default_factory=OrderedDict)
    slots: dict[Commitment, int] = field(default_factory=dict)  # The highest known slot of each commitment.

    def saw_slot(self, commitment: Commitment, slot: int) -> None:
        """Record a slot that a node reported. A finalized slot is confirmed too."""
        for level in Commitment:
            if level <= commitment and slot > self.slots.get(level, -1):
                self.slots[level] = slot

    def permanent(self, read: Read) -> NodeAnswer | None:
        """Return the cached answer that is valid for ever."""
        entry = self.entries.get(read.key)
        if entry is None or entry.slot is not None:
            return None
        self.entries.move_to_end(read.key)
        return entry.answer

    def pinned(self, read: Read, now: float) -> CachedAnswer | None:
        """Return the entry that is valid if its slot is still the newest: ask a node, then call holds()."""
        entry = self.entries.get(read.key)
        if entry is None or entry.slot is None or now - entry.asked_at > _PINNED_SECONDS:
            return None
        return entry if self.holds(read, entry) else None

    def holds(self, read: Read, entry: CachedAnswer) -> bool:
        """Return whether no later slot is known at the requested commitment."""
        assert entry.slot is not None and read.commitment is not None
        return entry.slot >= self.slots.get(read.commitment, -1)

    def keep(self, read: Read, answer: NodeAnswer, asked_at: float, finalized_slot: int | None = None) -> None:
        """Store the answer to a read, if it may be used again.

        finalized_slot: known when the read was sent. A slot that became final later may be of another fork.
        """
        if answer.kind is not AnswerKind.RESULT or read.kept is Kept.IN_FLIGHT:
            return
        slot = None
        if read.kept is Kept.SLOT:
            slot = _context_slot(answer)
            if slot is None or read.commitment is None:
                return
            self.saw_slot(read.commitment, slot)
            if slot < self.slots[read.commitment]:
                return  # The node is behind a known slot.
        elif not _is_final(read, answer, finalized_slot):
            return
        size = answer.size + len(read.key) + _OVERHEAD_BYTES
        if size * _LARGEST_SHARE > self.bytes_max:
            return
        # The lease is dropped: the cache has its own limit.
        self._put(read.key, CachedAnswer(msgspec.structs.replace(answer, cache=HIT, lease=None), slot, asked_at, size))

    def _put(self, key: bytes, entry: CachedAnswer) -> None:
        before = self.entries.pop(key, None)
        if before is not None:
            self.bytes_used -= before.size
        self.entries[key] = entry
        self.bytes_used += entry.size
        while self.bytes_used > self.bytes_max:
            _, dropped = self.entries.popitem(last=False)
            self.bytes_used -= dropped.size


def marked(answer: NodeAnswer, mark: str) -> NodeAnswer:
    """Return the same answer with its X-Cache value. A failure has none, because nothing was served."""
    if not answer.answered:
        return answer
    assert type(answer) is NodeAnswer, "answers made of pieces are not shared"
    # Field by field: replace() takes four times as long, and this is on the path of every call.
    a = answer
    return NodeAnswer(
        *(a.kind, a.first, a.id_start, a.id_end, a.error_code, a.error_message, a.node, mark, a.lease, a.turned_away),
        *(a.further, a.hashed),
    )
