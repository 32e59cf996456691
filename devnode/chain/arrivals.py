"""The transactions that reached the node, each with its leg, its time and its fate.

Implements: GET /admin/arrivals. Each broadcast is one entry, so a test can count broadcasts; what the node does with a
transaction afterwards (waiting, sending it again) changes the fate of its entry and adds none. The newest
`ARRIVALS_KEPT` are in memory.
Pure: time is an argument. Not here: what happens to a transaction (intake.py).
"""

from collections import deque
from collections.abc import Container
from enum import Enum, unique
from itertools import count, dropwhile, islice
from typing import Any

import msgspec
from solders.signature import Signature

from devnode.chain.chain import Dropped, Source, SubmitResult, Unsound, Waiting
from devnode.encoding.wire import Malformed
from devnode.records.records import TransactionRecord

ARRIVALS_KEPT = 30_000
LEGS = {Source.RPC: "local_rpc", Source.BUNDLE: "jito", Source.TPU: "tpu_quic"}


@unique
class Fate(Enum):
    WAITING = "waiting"  # For a leader's turn, for room in a block, for an auction, or for the end of a delay.
    DROPPED = "dropped"  # Lost on its way to the leader, or the leader does not keep it.
    REFUSED = "refused"  # The chain does not take it; `reason` says why.
    DUPLICATE = "duplicate"  # A copy had landed before.
    EXPIRED = "expired"  # Its blockhash is unknown, or too old by now.
    LANDED = "landed"  # It is in a block, successful or not.
    ABANDONED = "abandoned"  # It was in a block of a fork that was lost; it may land again.


class Arrival(msgspec.Struct, gc=False):
    number: int  # From 1, in the order of arrival.
    source: Source
    signature: Signature
    slot: int  # The slot that was being built.
    unix_ms: int
    fate: Fate = Fate.WAITING
    reason: Any = None  # Of a refusal.
    landed_slot: int | None = None

    def settle(self, result: SubmitResult | Unsound) -> None:
        """Record what became of the transaction. After it has landed, nothing changes that."""
        if self.fate is Fate.LANDED:
            return
        if isinstance(result, TransactionRecord):
            self.fate, self.reason, self.landed_slot = Fate.LANDED, None, result.slot
        elif isinstance(result, Waiting):
            self.fate = Fate.WAITING
        elif isinstance(result, Dropped):
            self.fate = Fate.DROPPED
        elif isinstance(result, Unsound):
            self.fate, self.reason = Fate.REFUSED, result.meta.err
        elif isinstance(result, Malformed):
            self.fate, self.reason = Fate.REFUSED, result.text
        elif result.err == "AlreadyProcessed":
            self.fate = Fate.DUPLICATE
        elif result.err == "BlockhashNotFound":
            self.fate = Fate.EXPIRED
        else:
            self.fate, self.reason = Fate.REFUSED, result.err

    def as_json(self) -> dict[str, Any]:
        return {
            "number": self.number,
            "leg": LEGS[self.source],
            "signature": str(self.signature),
            "slot": self.slot,
            "time_ms": self.unix_ms,
            "fate": self.fate.value,
            "reason": self.reason,
            "landed_slot": self.landed_slot,
        }


class ArrivalLog:
    def __init__(self) -> None:
        self._kept: deque[Arrival] = deque(maxlen=ARRIVALS_KEPT)
        self._numbers = count(1)

    def add(self, source: Source, signature: Signature, slot: int, unix_ms: int) -> Arrival:
        arrival = Arrival(next(self._numbers), source, signature, slot, unix_ms)
        self._kept.append(arrival)
        return arrival

    def abandon(self, slots: Container[int]) -> None:
        """Take note that these slots were on a lost fork."""
        for arrival in self._kept:
            if arrival.landed_slot in slots:
                arrival.fate, arrival.landed_slot = Fate.ABANDONED, None

    def after(self, number: int, limit: int) -> list[Arrival]:
        """The arrivals above the number, oldest first."""
        return list(islice(dropwhile(lambda arrival: arrival.number <= number, self._kept), limit))
