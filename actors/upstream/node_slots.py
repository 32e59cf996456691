"""Records the slots that nodes have shown, and limits which slots are plausible.

Implements: decisions, "Monotonic reads" (a node that names an absurd slot). Pure.

`told` is a node's own word of its newest slot, from probes and from questions made for this purpose. `reached` is the
highest slot that it has shown since its chain last went back, in answers too. No slot is believed that is further than
LEAD_SLOTS_MAX above what at least two working nodes tell, or above the word of the only one there is: so one node
cannot raise the floor of an account to a slot that no other node will reach soon.
"""

from collections.abc import Collection, Iterable, Sequence

from actors.upstream.node_health import Commitment, Probe, slot_at

# A minute of the chain. A node of Agave that is further behind says so itself, and its word does not count then.
LEAD_SLOTS_MAX = 150
# A node that showed a slot this near has probably reached it by now: probes come once a second, which is 2.5 slots.
NEAR_SLOTS = 2


class NodeSlots:
    """in_use: the nodes that get calls, by their index in the selection. What others answer still is not noted."""

    def __init__(self, in_use: Iterable[int] = ()) -> None:
        self._told: dict[int, list[int | None]] = {}
        self._reached: dict[int, list[int]] = {}
        self.use(in_use)

    @property
    def in_use(self) -> Collection[int]:
        return self._reached.keys()

    def use(self, indexes: Iterable[int]) -> None:
        """Use these nodes from now on. A new one has no known slots, even if another had its index before."""
        self._told = {index: self._told.get(index) or [None] * len(Commitment) for index in indexes}
        self._reached = {index: self._reached.get(index) or [0] * len(Commitment) for index in self._told}

    def probed(self, index: int, probe: Probe) -> None:
        works = probe.answered and not probe.behind
        for commitment in Commitment:
            slot = slot_at(probe, commitment) if works else None
            if slot is not None:
                self.told(index, commitment, slot)
            elif index in self._told:
                self._told[index][commitment] = None

    def told(self, index: int, commitment: Commitment, slot: int) -> None:
        """Record a node's report of its newest slot."""
        if index not in self._told:
            return
        before = self._told[index][commitment]
        if before is not None and slot < before:
            self._reached[index][commitment] = slot  # Its chain has restarted, or another node answers there.
        self._told[index][commitment] = slot
        self.showed(index, commitment, slot)

    def showed(self, index: int, commitment: Commitment, slot: int) -> None:
        """Record that the node has answered from this slot."""
        if index in self._reached:
            self._reached[index][commitment] = max(self._reached[index][commitment], slot)

    def refused(self, index: int, commitment: Commitment, slot: int) -> None:
        """Record that the node has not reached this slot, or answered from a lower one."""
        if index in self._reached:
            self._reached[index][commitment] = min(self._reached[index][commitment], slot - NEAR_SLOTS - 1)

    def slot_max(self, commitment: Commitment) -> int | None:
        """Return the highest plausible slot. None: no working node has reported one."""
        all_told = (slots[commitment] for slots in self._told.values())
        told = sorted((slot for slot in all_told if slot is not None), reverse=True)
        return told[min(1, len(told) - 1)] + LEAD_SLOTS_MAX if told else None

    def newest(self, commitment: Commitment) -> int | None:
        """Return the highest plausible slot that any node has shown."""
        most = self.slot_max(commitment)
        if most is None:
            return None
        reached = (slots[commitment] for slots in self._reached.values())
        return max((slot for slot in reached if slot <= most), default=None)

    def without(self, commitment: Commitment, floor: int) -> Sequence[int]:
        """Return the nodes in use that have not shown this slot, or showed an implausible one."""
        most = self.slot_max(commitment)
        return [
            index
            for index, slots in self._reached.items()
            if slots[commitment] < floor or (most is not None and slots[commitment] > most)
        ]
