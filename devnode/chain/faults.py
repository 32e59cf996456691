"""The faults of one node: the current plan, and the sends that it delays.

Implements: for doors that submit through `Chain.submit`, a gate that drops or delays transactions. A door that
executes by itself (bundles) calls `send_fate` first and passes delayed work to `hold`. Streams call `delivers` before
they send, and register in `streams`, so that faults can cut their connections; a lag needs no call, because the bus
publishes late. A single fault is kept until the next seal takes it.
Time is counted in slots; synchronous; the chain's thread owns it.
Not here: settings and decisions (faults/plan.py), setting them (admin.py), slots (pacemaker.py).
"""

import heapq
from collections import Counter
from collections.abc import Callable
from itertools import count
from typing import Any, Protocol

from devnode.chain.chain import Chain
from devnode.chain.submissions import Source
from devnode.encoding.wire import Decoded
from devnode.faults import plan as faults_plan
from devnode.faults.plan import (
    CallFate,
    CallFaults,
    FaultPlan,
    Late,
    Legs,
    Once,
    Passes,
    SendFate,
    Stream,
    TpuFate,
)

_LEGS = frozenset((Source.RPC, Source.TPU, Source.BUNDLE))  # All but the faucet, whose transactions always arrive.
_NO_SEND_FAULTS = Legs()
_COUNTED_METHODS_MAX = 256  # More than all methods that exist; unknown names above the limit share one counter.
HEALTHY_SLOTS_BEHIND_MAX = 128  # Agave's default health_check_slot_distance.


class OpenStreams(Protocol):
    """The connections of one kind of stream."""

    def cut(self) -> None:
        """End every connection at once, without a message."""

    def counts(self) -> dict[str, Any]:
        """The numbers of connections and subscriptions, as JSON."""


class Faults:
    def __init__(self, chain: Chain, leader_at: Callable[[int], int] = lambda slot: 0) -> None:
        self._chain = chain
        self._plan = FaultPlan()
        self._calls: Counter[str] = Counter()
        self._held: list[tuple[int, int, Callable[[], object]]] = []  # A heap of (due slot, order of arrival, action).
        self._order = count()
        self._is_delivering = False
        self._once = Once()
        self._silent_until: dict[Stream, int] = {}
        self.leader_at = leader_at
        self.streams: dict[Stream, OpenStreams] = {}
        chain.gates.append(self._gate)

    @property
    def plan(self) -> FaultPlan:
        return self._plan

    def set(self, plan: FaultPlan) -> None:
        """Apply a plan from now on. Sends that are delayed already still arrive in their slot."""
        lag_slots = plan.node.lag_slots
        if lag_slots != self._plan.node.lag_slots:
            self._chain.levels.lag(lag_slots)
            self._chain.bus.hold(lag_slots, self.slot)
        self._plan = plan
        self._calls.clear()

    @property
    def slots_behind(self) -> int | None:
        """The lag that getHealth reports; None up to the distance at which a node counts as healthy."""
        lag_slots = self._plan.node.lag_slots
        return lag_slots if lag_slots > HEALTHY_SLOTS_BEHIND_MAX else None

    def do_once(self, once: Once) -> None:
        """Apply a single fault: expired hashes, lost slots and cuts happen now, the others with the next seal."""
        if once.expire_blockhashes:
            self._chain.expire_blockhashes()
        for stream in Stream:
            lost: int = getattr(once.lost_slots, stream.value)
            if lost:
                self._silent_until[stream] = self.slot + lost
            if getattr(once.cut_connections, stream.value) and stream in self.streams:
                self.streams[stream].cut()
        self._once = self._once.joined(once)

    def next_seal(self) -> Once:
        """The faults for the seal of the slot being built, from single faults and from the plan."""
        once, self._once = self._once, Once()
        return Once(
            skip_slots=once.skip_slots or faults_plan.skipped_after(self._plan, self.slot, self.leader_at),
            fork_blocks=once.fork_blocks or faults_plan.forked_blocks(self._plan, self.slot),
            dead_block=once.dead_block or faults_plan.is_dead(self._plan, self.slot),
            purge_before_slot=once.purge_before_slot,
        )

    @property
    def slot(self) -> int:
        return self._chain.levels.building.slot

    # Sends.

    def send_fate(self, source: Source, signature: str) -> SendFate:
        """The fate of a send that arrives now. signature: of the transaction, or of the first one of a bundle."""
        if source not in _LEGS:
            return Passes()
        return faults_plan.send_fate(self._plan, source.value, self.slot, signature)

    def hold(self, slots: int, deliver: Callable[[], object]) -> None:
        """Call once that many slots have been opened after this one."""
        heapq.heappush(self._held, (self.slot + slots, next(self._order), deliver))

    def deliver(self) -> None:
        """Run the delayed actions that are due, in the order in which they were sent, and cut connections. Call it
        after a slot opens."""
        for stream, connections in self.streams.items():
            if faults_plan.cuts(self._plan, stream, self.slot):
                connections.cut()
        self._is_delivering = True
        try:
            while self._held and self._held[0][0] <= self.slot:
                heapq.heappop(self._held)[2]()
        finally:
            self._is_delivering = False

    def _gate(self, decoded: Decoded, source: Source) -> bool:
        if not self.befall_sends or self._is_delivering:
            return True  # The usual case, which must be fast, because every transaction takes it.
        fate = self.send_fate(source, str(decoded.signature))
        if isinstance(fate, Late):
            self.hold(fate.slots, lambda: self._chain.submit_decoded(decoded, source))
        return isinstance(fate, Passes)

    @property
    def befall_sends(self) -> bool:
        """Whether any leg or leader has faults."""
        return bool(self._plan.leaders) or self._plan.sends != _NO_SEND_FAULTS

    def reaches(self, leader: int, signature: str) -> bool:
        """Whether a transaction that is sent now to the leader's TPU reaches the leader."""
        return not faults_plan.leader_drops(self._plan, leader, self.slot, signature)

    def tpu_fate(self, leader: int, number: int) -> TpuFate:
        return faults_plan.tpu_fate(self._plan, leader, number)

    @property
    def late_ms(self) -> int:
        """How much longer the slot being built lasts, because its leader is late."""
        faults = faults_plan.leader_faults(self._plan, self.leader_at(self.slot)) if self._plan.leaders else None
        return 0 if faults is None else faults.late_ms

    # Calls and streams.

    def call_fate(self, method: str) -> CallFate:
        """The fate of a JSON-RPC call that arrives now. Counts the call."""
        counted = method if method in self._calls or len(self._calls) < _COUNTED_METHODS_MAX else ""
        number = self._calls[counted]
        self._calls[counted] += 1
        return faults_plan.call_fate(self._plan, method, number)

    @property
    def befall_calls(self) -> bool:
        """Whether any method has faults."""
        return bool(self._plan.calls)

    def call_faults(self, method: str) -> CallFaults | None:
        return faults_plan.call_faults(self._plan, method)

    def delivers(self, stream: Stream) -> bool:
        """Whether the stream delivers the events of the slot being built."""
        return self.slot >= self._silent_until.get(stream, 0) and not faults_plan.loses(self._plan, stream, self.slot)
