"""The Clock sysvar of each slot.

Implements: slot, epoch and times. An epoch begins, for this process, with its first slot that the process opens.
Pure: time is an argument. Not here: setting it on the VM (chain.py).
"""

from dataclasses import dataclass

from solders.clock import Clock

from devnode.records.epochs import epoch_of


@dataclass(slots=True)
class SlotClock:
    _epoch: int = -1
    _epoch_unix_time: int = 0

    def at(self, slot: int, unix_time: int) -> Clock:
        """The Clock of a slot that opens at this time."""
        epoch = epoch_of(slot).epoch
        if epoch != self._epoch:
            self._epoch, self._epoch_unix_time = epoch, unix_time
        return Clock(
            slot=slot,
            epoch_start_timestamp=self._epoch_unix_time,
            epoch=epoch,
            leader_schedule_epoch=epoch + 1,
            unix_timestamp=unix_time,
        )
