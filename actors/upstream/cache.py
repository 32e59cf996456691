"""A cache of answers, limited by their bytes; the least recently used is removed first.

Implements: the slot-pinned cache: what is kept and when it may be given again.
Pure: seconds of a monotonic clock arrive as arguments. reads.py describes a read, coalescing.py shares it.

A pinned answer is the state at one slot. It may be used again only while that slot is the newest at the requested
commitment; coalescing.py asks a node about that before every such hit.
"""

from collections import OrderedDict
from dataclasses import dataclass, field

import msgspec

from actors.upstream import reads
from actors.upstream.node_health import Commitment
from actors.upstream.reads import Kept, Read
from actors.upstream.replies import AnswerKind, NodeAnswer

HIT, MISS, COALESCED = "hit", "miss", "coalesced"
_OVERHEAD_BYTES = 400  # Of keys and objects around the bytes, so that small answers have a weight too.
_LARGEST_SHARE = 4  # One answer may fill a quarter of the room.
_PINNED_SECONDS = 0.4  # A slot's length: an older one has been overtaken nearly for certain, so nobody asks.


@dataclass(frozen=True, slots=True)
class CachedAnswer:
    """slot: of the bank that answered; None: true for ever. asked_at: seconds, when its node was asked."""

    answer: NodeAnswer
    slot: int | None
    asked_at: float
    size: int


@dataclass(slots=True)
class Cache:
    bytes_max: int
    bytes_used: int = 0
    entries: OrderedDict[bytes, CachedAnswer] = field(default_factory=OrderedDict)
    slots: dict[Commitment, int] = field(default_factory=dict)  # The highest known, by commitment.

    def saw_slot(self, commitment: Commitment, slot: int) -> None:
        """Record a slot that a node reported. A finalized slot is confirmed too."""
        for level in Commitment:
            if level <= commitment and slot > self.slots.get(level, -1):
                self.slots[level] = slot

    def forever(self, read: Read) -> NodeAnswer | None:
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

        finalized_slot: as it was known when the read was sent; what became final since may be another fork.
        """
        if answer.kind is not AnswerKind.RESULT or read.kept is Kept.IN_FLIGHT:
            return
        slot = None
        if read.kept is Kept.SLOT:
            slot = reads.context_slot(answer)
            if slot is None or read.commitment is None:
                return
            self.saw_slot(read.commitment, slot)
            if slot < self.slots[read.commitment]:
                return  # From a node that is behind what is known already.
        elif not reads.is_final(read, answer, finalized_slot):
            return
        size = len(answer.body) + len(read.key) + _OVERHEAD_BYTES
        if size * _LARGEST_SHARE > self.bytes_max:
            return
        # Kept without its lease: what is kept here has a bound of its own.
        given = msgspec.structs.replace(answer, cache=HIT, lease=None)
        self._put(read.key, CachedAnswer(given, slot, asked_at, size))

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
    """The same answer, saying how it came about. Failures carry no mark: nothing was served."""
    if not answer.answered:
        return answer
    assert type(answer) is NodeAnswer, "answers made of pieces are not shared"
    return NodeAnswer(  # Field by field: replace() takes four times as long, and this is on the path of every call.
        answer.kind,
        answer.body,
        answer.id_start,
        answer.id_end,
        answer.error_code,
        answer.error_message,
        answer.node,
        mark,
        answer.lease,
        answer.turned_away,
    )
