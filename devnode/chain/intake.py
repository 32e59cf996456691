"""The way of a transaction from a door to the leader.

Implements: each arrival is noted; faults of legs and leaders decide whether it reaches a leader. A send by RPC
goes to the leader of the slot and to the next one, as from an Agave node; a transaction on a TPU port reaches the
leader of that port. A leader keeps a transaction until its turn, if the turn begins within `HOLD_SLOTS_MAX` slots;
there is no forwarding. The node sends a transaction of its RPC again every five slots, until it has landed, its
blockhash is too old, or the re-sends that its sender allows are used up. Each broadcast is one entry of GET
/admin/arrivals, so a test can count broadcasts; what the node does with a transaction afterwards changes the
fate of its entry and adds none.
Time is counted in slots; synchronous. Not here: executing (chain.py), the decisions of faults (faults/plan.py).
"""

from collections import deque
from collections.abc import Container
from enum import Enum, unique
from itertools import count, dropwhile, islice
from typing import Any

import msgspec
from solders.signature import Signature

from actors.clock import Clock
from devnode.chain.bus import SlotsAbandoned
from devnode.chain.chain import Chain
from devnode.chain.faults import Faults
from devnode.chain.filling import BlockFilling
from devnode.chain.submissions import Dropped, Source, SubmitResult, Unsound, Waiting
from devnode.encoding.wire import Decoded, Malformed
from devnode.execution.execution import Refused
from devnode.faults.plan import Late, Lost
from devnode.records.leaders import HOLD_SLOTS_MAX, LeaderSchedule
from devnode.records.records import TransactionRecord

ARRIVALS_KEPT = 30_000
LEGS = {Source.RPC: "local_rpc", Source.BUNDLE: "jito", Source.TPU: "tpu_quic"}
RESEND_SLOTS = 5  # Agave's retry_rate_ms: 2 seconds.
RESENDING_MAX = 10_000  # Agave's MAX_TRANSACTION_QUEUE_SIZE.
UNTIL_EXPIRY = 2**64 - 1  # Re-sends without a limit: Agave's default.
_FINAL_REFUSALS = ("AlreadyProcessed", "SignatureFailure")


@unique
class Fate(Enum):
    WAITING = "waiting"  # For a leader's turn, for room in a block, for an auction, or for the end of a delay.
    DROPPED = "dropped"  # Lost on its way to the leader, or the leader does not keep it.
    REFUSED = "refused"  # The chain refused it; `reason` says why.
    DUPLICATE = "duplicate"  # A copy had landed before.
    EXPIRED = "expired"  # Its blockhash is unknown, or too old by now.
    LANDED = "landed"  # It is in a block, successful or not.
    ABANDONED = "abandoned"  # It was in a block of a fork that was lost; it may land again.


class Arrival(msgspec.Struct, gc=False):
    number: int  # Numbered from 1, in the order of arrival.
    source: Source
    signature: Signature
    slot: int  # The slot that was being built.
    unix_ms: int
    fate: Fate = Fate.WAITING
    reason: Any = None  # Reason of a refusal.
    landed_slot: int | None = None

    def settle(self, result: SubmitResult | Unsound) -> None:
        """Record the outcome of the transaction. After it has landed, nothing changes that."""
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
        """Record that these slots were on a lost fork."""
        for arrival in self._kept:
            if arrival.landed_slot in slots:
                arrival.fate, arrival.landed_slot = Fate.ABANDONED, None

    def after(self, number: int, limit: int) -> list[Arrival]:
        """The arrivals above the number, oldest first."""
        return list(islice(dropwhile(lambda arrival: arrival.number <= number, self._kept), limit))


class Broadcast(msgspec.Struct):
    """One transaction on its way."""

    decoded: Decoded
    source: Source
    signatures_checked: bool
    arrival: Arrival
    port: int | None = None  # The leader whose TPU port it reached; None: the node sends it to the leaders itself.
    resends: int = 0  # How often the node may still send it again by itself.
    refusal_is_final: bool = False  # The sender is told a refusal, so it must not land afterwards.


class Intake:
    def __init__(
        self, chain: Chain, filling: BlockFilling, faults: Faults, leaders: LeaderSchedule, clock: Clock
    ) -> None:
        self._chain, self._filling, self._faults = chain, filling, faults
        self._leaders, self._clock = leaders, clock
        self._arrivals = ArrivalLog()
        self._abandoned = chain.bus.subscribe(SlotsAbandoned)
        self._resending = 0  # Transactions that the node will send again.

    def arrive(self, decoded: Decoded, source: Source) -> Arrival:
        """Note a broadcast."""
        slot = self._chain.levels.building.slot
        return self._arrivals.add(source, decoded.signature, slot, self._clock.now_ms())

    def arrivals(self, after: int, limit: int) -> list[Arrival]:
        """The arrivals with a number above `after`, oldest first."""
        for event in self._abandoned.drain():
            assert isinstance(event, SlotsAbandoned), event
            self._arrivals.abandon(event.slots)
        return self._arrivals.after(after, limit)

    def submit(
        self,
        decoded: Decoded,
        source: Source,
        signatures_checked: bool = False,
        port: int | None = None,
        resends: int = 0,
        refusal_is_final: bool = False,
    ) -> SubmitResult:
        """Take one broadcast.

        port: the leader whose TPU port it reached. resends: how often the node may send it again by itself.
        refusal_is_final: the node does not send it again after a refusal, because the caller reports the refusal."""
        arrival = self.arrive(decoded, source)
        return self._sent(Broadcast(decoded, source, signatures_checked, arrival, port, resends, refusal_is_final))

    def submit_if_sound(self, decoded: Decoded, signatures_checked: bool) -> SubmitResult | Unsound:
        """Take a send by RPC that is checked and landed in one run, because it reaches the leader (`is_direct`)."""
        arrival = self.arrive(decoded, Source.RPC)
        result = self._chain.submit_if_sound(decoded, Source.RPC, signatures_checked)
        arrival.settle(result)
        return result

    @property
    def is_direct(self) -> bool:
        """Whether every send by RPC reaches the leader of the slot at once, and lands there at once."""
        return not self._faults.befall_sends and self._filling.is_direct

    def _sent(self, broadcast: Broadcast) -> SubmitResult:
        """Send a transaction, and plan to send it again if that may help."""
        result = self._settled(broadcast, self._passed(broadcast))
        over = isinstance(result, TransactionRecord)
        if isinstance(result, Refused):
            over = broadcast.refusal_is_final or result.err in _FINAL_REFUSALS
        broadcast.refusal_is_final = False  # The sender has its answer.
        if broadcast.resends and not over and self._resending < RESENDING_MAX:
            self._resending += 1
            self._faults.hold(RESEND_SLOTS, lambda: self._send_again(broadcast))
        return result

    def _send_again(self, broadcast: Broadcast) -> None:
        self._resending -= 1
        decoded = broadcast.decoded
        if decoded.signature not in self._chain.statuses and self._chain.refusal_now(decoded) is None:
            broadcast.resends -= 1
            self._sent(broadcast)

    def _passed(self, broadcast: Broadcast) -> SubmitResult:
        """Bring a transaction over its leg, where faults can lose or delay it."""
        if self._faults.befall_sends:
            fate = self._faults.send_fate(broadcast.source, str(broadcast.decoded.signature))
            if isinstance(fate, Lost):
                return Dropped()
            if isinstance(fate, Late):
                self._faults.hold(fate.slots, lambda: self._settled(broadcast, self._received(broadcast)))
                return Waiting()
        return self._received(broadcast)

    def _received(self, broadcast: Broadcast) -> SubmitResult:
        """Give a transaction to the leaders that it is for and that do not lose it."""
        port = broadcast.port
        leaders = self._leaders.this_and_next(self._faults.slot) if port is None else (port,)
        if self._faults.befall_sends:
            signature = str(broadcast.decoded.signature)
            leaders = tuple(leader for leader in leaders if self._faults.reaches(leader, signature))
        return self._at_leaders(broadcast, leaders) if leaders else Dropped()

    def _at_leaders(self, broadcast: Broadcast, leaders: tuple[int, ...]) -> SubmitResult:
        """Land the transaction if one of these leaders leads now; otherwise they keep it until a turn that is near."""
        slot = self._faults.slot
        if self._leaders.leader_at(slot) in leaders:
            return self._filling.take(
                broadcast.decoded, broadcast.source, broadcast.signatures_checked, broadcast.arrival.settle
            )
        wait = min(self._leaders.slots_until(leader, slot) for leader in leaders)
        if wait > HOLD_SLOTS_MAX:
            return Dropped()
        self._faults.hold(wait, lambda: self._settled(broadcast, self._at_leaders(broadcast, leaders)))
        return Waiting()

    def _settled(self, broadcast: Broadcast, result: SubmitResult) -> SubmitResult:
        broadcast.arrival.settle(result)
        return result
