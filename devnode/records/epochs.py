"""Epochs: the epoch of a slot, and its position there.

Implements: getEpochSchedule and getEpochInfo for a schedule without warm-up (432,000 slots). Pure.
"""

from dataclasses import dataclass

SLOTS_PER_EPOCH = 432_000
LEADER_SCHEDULE_SLOT_OFFSET = 432_000


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
