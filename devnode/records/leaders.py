"""Epochs, the leaders of the chain, and the schedule of their slots.

Implements: epochs without warm-up (432,000 slots); four slots in a row for each turn; every round gives each leader one
turn, in an order that depends on the seed, the epoch and the round. A leader therefore waits at most two rounds for its
next turn.
Pure. Not here: keys (genesis.py), faults of leaders (faults/plan.py).
"""

import hashlib
from dataclasses import dataclass, field

SLOTS_PER_EPOCH = 432_000
LEADER_SCHEDULE_SLOT_OFFSET = 432_000
SLOTS_PER_TURN = 4
LEADERS_MAX = 32
# Agave's HOLD_TRANSACTIONS_SLOT_OFFSET: a validator keeps a transaction for a turn that begins within so many slots.
HOLD_SLOTS_MAX = 20
_TURNS_PER_EPOCH = SLOTS_PER_EPOCH // SLOTS_PER_TURN
_EPOCHS_KEPT = 4


@dataclass(frozen=True, slots=True)
class EpochPosition:
    epoch: int
    slot_index: int
    first_slot: int
    slots_in_epoch: int = SLOTS_PER_EPOCH

    @property
    def last_slot(self) -> int:
        return self.first_slot + self.slots_in_epoch - 1


def epoch_of(slot: int) -> EpochPosition:
    epoch, index = divmod(slot, SLOTS_PER_EPOCH)
    return EpochPosition(epoch, index, slot - index)


@dataclass(slots=True)
class LeaderSchedule:
    """The schedule of `count` leaders, which are numbered from 0; number 0 is this node."""

    count: int
    salt: bytes
    _turns: dict[int, bytes] = field(default_factory=dict)  # By epoch: the leader of each turn.

    def leader_at(self, slot: int) -> int:
        epoch, index = divmod(slot, SLOTS_PER_EPOCH)
        return self.turns(epoch)[index // SLOTS_PER_TURN]

    def this_and_next(self, slot: int) -> tuple[int, ...]:
        """The leader of the slot, and the leader of the first later turn that is another leader's, if there is one."""
        leader = self.leader_at(slot)
        if self.count == 1:
            return (leader,)
        turn = slot // SLOTS_PER_TURN + 1
        while self.leader_at(turn * SLOTS_PER_TURN) == leader:
            turn += 1
        return leader, self.leader_at(turn * SLOTS_PER_TURN)

    def slots_until(self, leader: int, slot: int) -> int:
        """Slots from this one to the next slot of the leader; 0 while it leads."""
        if self.leader_at(slot) == leader:
            return 0
        turn = slot // SLOTS_PER_TURN + 1
        while self.leader_at(turn * SLOTS_PER_TURN) != leader:
            turn += 1
        return turn * SLOTS_PER_TURN - slot

    def slots_led(self, leader: int, first_slot: int, last_slot: int) -> int:
        """The number of the leader's slots in the range, both ends included."""
        count = 0
        slot = first_slot
        while slot <= last_slot:
            epoch, index = divmod(slot, SLOTS_PER_EPOCH)
            turn, within = divmod(index, SLOTS_PER_TURN)
            whole = min(last_slot - slot + 1, SLOTS_PER_EPOCH - index) // SLOTS_PER_TURN
            if within == 0 and whole:
                count += self.turns(epoch).count(leader, turn, turn + whole) * SLOTS_PER_TURN
                slot += whole * SLOTS_PER_TURN
            else:
                count += self.turns(epoch)[turn] == leader
                slot += 1
        return count

    def turns(self, epoch: int) -> bytes:
        """The leader of each turn of the epoch."""
        known = self._turns.get(epoch)
        if known is None:
            if len(self._turns) >= _EPOCHS_KEPT:
                del self._turns[min(self._turns)]
            known = self._turns[epoch] = self._drawn(epoch)
        return known

    def _drawn(self, epoch: int) -> bytes:
        if self.count == 1:
            return bytes(_TURNS_PER_EPOCH)
        rounds = -(-_TURNS_PER_EPOCH // self.count)
        drawn = hashlib.shake_256(self.salt + f" leaders {self.count} {epoch}".encode()).digest(rounds * self.count)
        turns = bytearray()
        for start in range(0, len(drawn), self.count):
            turns += bytes(sorted(range(self.count), key=drawn[start : start + self.count].__getitem__))
        return bytes(turns[:_TURNS_PER_EPOCH])
