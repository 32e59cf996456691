"""The way of a transaction from a door to the leader.

Implements: each arrival is noted; faults of legs and leaders decide whether it reaches a leader. A send by RPC
goes to the leader of the slot and to the next one, as from an Agave node; a transaction on a TPU port reaches the
leader of that port. A leader keeps a transaction until its turn, if the turn begins within `HOLD_SLOTS_MAX` slots;
there is no forwarding.
Time is counted in slots; synchronous. Not here: executing (chain.py), the decisions of faults (faults/plan.py).
"""

import msgspec

from actors.clock import Clock
from actors.devnode.chain.arrivals import Arrival, ArrivalLog
from actors.devnode.chain.chain import Chain, Dropped, Source, SubmitResult, Unsound, Waiting
from actors.devnode.chain.leaders import HOLD_SLOTS_MAX, LeaderSchedule
from actors.devnode.encoding.wire import Decoded
from actors.devnode.faults.faults import Faults
from actors.devnode.faults.plan import Late, Lost


class Broadcast(msgspec.Struct):
    """One transaction on its way."""

    decoded: Decoded
    source: Source
    signatures_checked: bool
    arrival: Arrival
    port: int | None = None  # The leader whose TPU port it reached; None: the node sends it to the leaders itself.


class Intake:
    def __init__(self, chain: Chain, faults: Faults, leaders: LeaderSchedule, clock: Clock) -> None:
        self._chain, self._faults, self._leaders, self._clock = chain, faults, leaders, clock
        self.arrivals = ArrivalLog()

    def arrive(self, decoded: Decoded, source: Source) -> Arrival:
        """Note a broadcast."""
        return self.arrivals.add(source, decoded.signature, self._faults.slot, self._clock.now_ms())

    def submit(
        self, decoded: Decoded, source: Source, signatures_checked: bool = False, port: int | None = None
    ) -> SubmitResult:
        """Take one broadcast. port: the leader whose TPU port it reached."""
        broadcast = Broadcast(decoded, source, signatures_checked, self.arrive(decoded, source), port)
        return self._settled(broadcast, self._sent(broadcast))

    def submit_if_sound(self, decoded: Decoded, signatures_checked: bool) -> SubmitResult | Unsound:
        """Take a send by RPC that is checked and landed in one run, because it reaches the leader (`is_direct`)."""
        arrival = self.arrive(decoded, Source.RPC)
        result = self._chain.submit_if_sound(decoded, Source.RPC, signatures_checked)
        arrival.settle(result)
        return result

    @property
    def is_direct(self) -> bool:
        """Whether every send by RPC reaches the leader of the slot at once."""
        return not self._faults.befall_sends

    def _sent(self, broadcast: Broadcast) -> SubmitResult:
        """Send a transaction on its leg, where faults can lose or delay it."""
        slot = self._faults.slot
        targets = (broadcast.port,) if broadcast.port is not None else self._leaders.this_and_next(slot)
        if not self._faults.befall_sends:
            return self._at_leaders(broadcast, targets)
        signature = str(broadcast.decoded.signature)
        fate = self._faults.send_fate(broadcast.source, signature)
        reached = tuple(leader for leader in targets if self._faults.reaches(leader, signature))
        if isinstance(fate, Lost) or not reached:
            return Dropped()
        if isinstance(fate, Late):
            return self._later(fate.slots, broadcast, reached)
        return self._at_leaders(broadcast, reached)

    def _at_leaders(self, broadcast: Broadcast, leaders: tuple[int, ...]) -> SubmitResult:
        """Land the transaction if one of these leaders leads now; otherwise they keep it until a turn that is near."""
        slot = self._faults.slot
        if self._leaders.leader_at(slot) in leaders:
            return self._chain.submit_decoded(broadcast.decoded, broadcast.source, broadcast.signatures_checked)
        wait = min(self._leaders.slots_until(leader, slot) for leader in leaders)
        return self._later(wait, broadcast, leaders) if wait <= HOLD_SLOTS_MAX else Dropped()

    def _later(self, slots: int, broadcast: Broadcast, leaders: tuple[int, ...]) -> Waiting:
        self._faults.hold(slots, lambda: self._settled(broadcast, self._at_leaders(broadcast, leaders)))
        return Waiting()

    def _settled(self, broadcast: Broadcast, result: SubmitResult) -> SubmitResult:
        broadcast.arrival.settle(result)
        return result
