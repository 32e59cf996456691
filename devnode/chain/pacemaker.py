"""Seals a slot every `slot_ms` and has it written to disk.

Implements: monotonic deadlines, where late slots are sealed at once until the schedule is met again. The next seal
waits until the journal has written the last slot, so a killed node loses at most the slot being built. Applies the
faults of slots: a skipped slot takes as long as any other, and a fork that will be lost is never written. Jumps to a
later slot and time on demand; from then on block times are ahead of the clock by as much, also after a restart.
Not here: what sealing does (chain.py), which faults hit which slot (faults/plan.py).
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from actors.clock import Clock
from devnode.chain.chain import Chain
from devnode.chain.faults import Faults
from devnode.chain.open_block import ForkEnd
from devnode.chain.operations import warp
from devnode.journal.journal import Journal, SealedSlot
from devnode.records.commitment import Commitment

# The archive's row ids have 39 bits for the slot; this leaves as many slots to build as can be jumped over.
WARP_SLOT_MAX = 2**38
WARP_UNIX_TIME_MAX = 253_402_300_799  # The end of the year 9999; clients cannot show later times.
_BEHIND_BEATS_MAX = 10  # If it is further behind (a suspended laptop), it drops the missed slots.


class WarpError(Exception):
    """The chain cannot jump there; the text says why."""


@dataclass(frozen=True, slots=True)
class Fork:
    """A fork being built, which will be abandoned with its last block."""

    first_slot: int
    last_is_dead: bool
    blocks_left: int  # Includes the block being built.


class Pacemaker:
    def __init__(self, chain: Chain, journal: Journal, clock: Clock, slot_ms: int, faults: Faults) -> None:
        self._chain, self._journal, self._clock, self._faults = chain, journal, clock, faults
        self._slot_seconds = slot_ms / 1000
        self._writer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="journal")
        self._flushing: asyncio.Future[int] | None = None
        self._broken = False
        self._fork: Fork | None = None
        self._turn = asyncio.Lock()  # A beat and a jump wait for the disk, and must not do so at the same time.
        # Above 0 after a jump in time, in this run or in the one that the chain was restored from.
        self._ahead_seconds = max(0, chain.opened_unix_time - clock.now())

    async def run(self) -> None:
        """Seal slots until cancelled. Raises the journal's errors: the chain may not go on without its disk."""
        deadline = self._clock.monotonic() + self._slot_seconds
        while True:
            await asyncio.sleep(max(0.0, deadline - self._clock.monotonic()))
            if self._faults.late_ms:
                deadline += self._faults.late_ms / 1000
                await asyncio.sleep(max(0.0, deadline - self._clock.monotonic()))
            skipped = 0
            if not self._faults.plan.slots.frozen:
                skipped = await self.beat()
            deadline += self._slot_seconds * (1 + skipped)
            now = self._clock.monotonic()
            if now - deadline > _BEHIND_BEATS_MAX * self._slot_seconds:
                deadline = now

    async def beat(self) -> int:
        """Seal one slot and start to write it, after the slot before it is written. Returns the number of skips."""
        async with self._turn:
            return await self._beat()

    async def _beat(self) -> int:
        await self.written()
        once = self._faults.next_seal()
        if once.purge_before_slot is not None:
            await self._purge(once.purge_before_slot)
        fork = self._fork
        if fork is None and (once.fork_blocks or once.dead_block):
            fork = Fork(self._chain.levels.building.slot, once.dead_block, once.fork_blocks or 1)
        self._seal(once.skip_slots, fork)
        self._faults.deliver()
        return once.skip_slots

    async def warp(self, slot: int | None, unix_time: int | None) -> int:
        """Jump to a later slot, to a later time, or to both; returns the slot that is being built then.

        Without the one, it moves on by as much as the other, at the length of a slot. Raises WarpError."""
        wanted_slot, _ = self._target(slot, unix_time)
        # Draws the schedule of that epoch beside the loop, because it takes a while.
        await asyncio.to_thread(self._faults.leader_at, wanted_slot)
        async with self._turn:
            await self.written()
            if self._fork is not None:
                raise WarpError("a fork is being built: ask again when it has ended")
            to_slot, to_time = self._target(slot, unix_time)  # Again, because slots may have passed in the meantime.
            sealed = warp(self._chain, to_slot, to_time, self._clock.monotonic())
            self._ahead_seconds = to_time - self._clock.now()
            self._write(sealed)
            self._faults.deliver()
            await self.written()
            return to_slot

    def _target(self, slot: int | None, unix_time: int | None) -> tuple[int, int]:
        """The slot and the time to jump to. Raises WarpError."""
        now_slot, now_time = self._chain.levels.building.slot, self._unix_time()
        if slot is None and unix_time is None:
            raise WarpError("wanted slot, unix_time, or both")
        earliest = now_time + (slot is None)  # With a slot, the time may stay.
        if unix_time is not None and not earliest <= unix_time <= WARP_UNIX_TIME_MAX:
            raise WarpError(f"unix_time: {unix_time}, wanted {earliest} to {WARP_UNIX_TIME_MAX}")
        if slot is None:
            assert unix_time is not None
            slot = now_slot + max(1, round((unix_time - now_time) / self._slot_seconds))
        if not now_slot < slot <= WARP_SLOT_MAX:
            raise WarpError(f"slot: {slot}, wanted {now_slot + 1} to {WARP_SLOT_MAX}")
        if unix_time is None:
            unix_time = now_time + round((slot - now_slot) * self._slot_seconds)
            if unix_time > WARP_UNIX_TIME_MAX:
                raise WarpError(f"slot: {slot} would be after the year 9999; give unix_time as well")
        return slot, unix_time

    def _unix_time(self) -> int:
        """The time of the chain, which never goes back."""
        return max(self._clock.now() + self._ahead_seconds, self._chain.opened_unix_time)

    def _seal(self, skip: int, fork: Fork | None) -> None:
        end = ForkEnd(fork.first_slot, fork.last_is_dead) if fork is not None and fork.blocks_left == 1 else None
        sealed = self._chain.seal(self._unix_time(), self._clock.monotonic(), skip, end)
        if fork is None:
            self._write(sealed)
        self._fork = None if fork is None or end else replace(fork, blocks_left=fork.blocks_left - 1)

    def _write(self, sealed: SealedSlot) -> None:
        taken = self._chain.taken_over()
        if taken:
            sealed = replace(sealed, taken_over=taken)
        self._flushing = asyncio.get_running_loop().run_in_executor(self._writer, self._flush, sealed)
        self._flushing.add_done_callback(self._written)

    async def _purge(self, before_slot: int) -> None:
        """Delete history below the slot, at most up to the finalized slot: restarts and streams need later blocks."""
        first_kept = min(before_slot, self._chain.levels.at(Commitment.FINALIZED).slot)
        self._broken = True
        await asyncio.get_running_loop().run_in_executor(self._writer, self._journal.prune, first_kept)
        self._broken = False

    def _flush(self, sealed: SealedSlot) -> int:
        self._journal.flush(sealed)
        return sealed.block.slot

    def _written(self, flushed: asyncio.Future[int]) -> None:
        if not flushed.cancelled() and flushed.exception() is None:
            self._chain.mark_durable(flushed.result())

    async def written(self) -> None:
        """Wait until the last sealed slot is on disk; raises the journal's error."""
        if self._flushing is not None:
            flushing, self._flushing = self._flushing, None
            self._broken = True  # Until the write succeeds: no slot may be written after one that is missing.
            await flushing
            self._broken = False

    async def stop(self) -> None:
        """Seal and write the open slot, so that a clean end loses no transaction. After a failed write, only stop."""
        try:
            if not self._broken:
                await self.written()
                if self._fork is not None:
                    self._seal(0, replace(self._fork, blocks_left=1))
                self._seal(0, None)
                await self.written()
        finally:
            self._writer.shutdown()
