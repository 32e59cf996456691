"""The faults of one node: the plan that holds now, and what is under way because of it.

Implements: the switch that doors ask. A door that submits through `Chain.submit` needs to ask nothing: the gate here
drops or delays. One that executes in its own way (bundles) asks `send_fate` first and gives `hold` what is late.
Streams ask `tells` before they tell; a lag needs nothing of them, since the bus itself is late. What is done once is
kept until the next seal asks for it. Time is counted in slots; synchronous, one owner thread.
Not here: settings and decisions (plan.py), who turns them (admin.py), slots (chain/pacemaker.py).
"""

import heapq
from collections import Counter
from collections.abc import Callable
from itertools import count

from actors.devnode.chain.chain import Chain, Source
from actors.devnode.encoding.wire import Decoded
from actors.devnode.faults import plan as faults_plan
from actors.devnode.faults.plan import CallFate, CallFaults, FaultPlan, Late, Legs, Once, Passes, SendFate, Stream

_LEGS = frozenset((Source.RPC, Source.TPU, Source.BUNDLE))  # The faucet's gifts always arrive.
_NO_SEND_FAULTS = Legs()
_COUNTED_METHODS_MAX = 256  # Several times the methods there are; names beyond, which clients made up, share a count.
HEALTHY_SLOTS_BEHIND_MAX = 128  # Agave's default health_check_slot_distance.


class Faults:
    def __init__(self, chain: Chain) -> None:
        self._chain = chain
        self._plan = FaultPlan()
        self._calls: Counter[str] = Counter()
        self._held: list[tuple[int, int, Callable[[], object]]] = []  # Due slot, order of arrival, what to do.
        self._order = count()
        self._is_delivering = False
        self._once = Once()
        self._silent_until: dict[Stream, int] = {}
        chain.gates.append(self._gate)

    @property
    def plan(self) -> FaultPlan:
        return self._plan

    def set(self, plan: FaultPlan) -> None:
        """From now on. What is held already arrives when it is due."""
        lag_slots = plan.node.lag_slots
        if lag_slots != self._plan.node.lag_slots:
            self._chain.levels.lag(lag_slots)
            self._chain.bus.hold(lag_slots, self.slot)
        self._plan = plan
        self._calls.clear()

    @property
    def slots_behind(self) -> int | None:
        """How far behind the node says it is: like a node of the cluster, it calls itself healthy up to a distance."""
        lag_slots = self._plan.node.lag_slots
        return lag_slots if lag_slots > HEALTHY_SLOTS_BEHIND_MAX else None

    def do_once(self, once: Once) -> None:
        """Expired hashes and silence begin now; what concerns slots happens with the next seal."""
        if once.expire_blockhashes:
            self._chain.expire_blockhashes()
        for stream in Stream:
            lost: int = getattr(once.lost_slots, stream.value)
            if lost:
                self._silent_until[stream] = self.slot + lost
        self._once = self._once.joined(once)

    def next_seal(self) -> Once:
        """What happens with the seal of the slot that is being built, by what was asked for once and by the plan."""
        once, self._once = self._once, Once()
        return Once(
            skip_slots=once.skip_slots or faults_plan.skipped_after(self._plan, self.slot),
            fork_blocks=once.fork_blocks or faults_plan.forked_blocks(self._plan, self.slot),
            dead_block=once.dead_block or faults_plan.is_dead(self._plan, self.slot),
            purge_before_slot=once.purge_before_slot,
        )

    @property
    def slot(self) -> int:
        return self._chain.levels.building.slot

    # Sends.

    def send_fate(self, source: Source, signature: str) -> SendFate:
        """What becomes of something that arrives now. signature: of the (first) transaction."""
        if source not in _LEGS or self._is_delivering:
            return Passes()
        return faults_plan.send_fate(self._plan, source.value, self.slot, signature)

    def hold(self, slots: int, deliver: Callable[[], object]) -> None:
        """Call once that many slots have been opened after this one."""
        heapq.heappush(self._held, (self.slot + slots, next(self._order), deliver))

    def deliver(self) -> None:
        """A slot was opened: what is due arrives, in the order in which it was sent."""
        self._is_delivering = True
        try:
            while self._held and self._held[0][0] <= self.slot:
                heapq.heappop(self._held)[2]()
        finally:
            self._is_delivering = False

    def _gate(self, decoded: Decoded, source: Source) -> bool:
        if not self.befall_sends:
            return True  # The usual case, on the path of every transaction.
        fate = self.send_fate(source, str(decoded.signature))
        if isinstance(fate, Late):
            self.hold(fate.slots, lambda: self._chain.submit_decoded(decoded, source))
        return isinstance(fate, Passes)

    @property
    def befall_sends(self) -> bool:
        """Whether any leg has faults at all."""
        return self._plan.sends != _NO_SEND_FAULTS

    # Calls and streams.

    def call_fate(self, method: str) -> CallFate:
        """What becomes of a JSON-RPC call that arrives now; asking counts it."""
        counted = method if method in self._calls or len(self._calls) < _COUNTED_METHODS_MAX else ""
        number = self._calls[counted]
        self._calls[counted] += 1
        return faults_plan.call_fate(self._plan, method, number)

    @property
    def befall_calls(self) -> bool:
        """Whether any method has faults at all."""
        return bool(self._plan.calls)

    def call_faults(self, method: str) -> CallFaults | None:
        return faults_plan.call_faults(self._plan, method)

    def tells(self, stream: Stream) -> bool:
        """Whether the stream tells what happens in the slot that is being built."""
        return self.slot >= self._silent_until.get(stream, 0) and not faults_plan.loses(self._plan, stream, self.slot)
