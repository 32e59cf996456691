"""The beat: seals a slot every slot_ms and sees it to disk.

Implements: slots against a monotonic deadline, late ones made up for at once; the next seal waits until the last
one is in the journal, so a killed node loses at most the slot it was building. Carries out what the faults say of
slots: skipped ones take their time, a fork that will be lost never reaches the journal.
Not here: what sealing means (chain.py), which slots suffer what (faults/plan.py).
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from actors.clock import Clock
from actors.devnode.chain.chain import Chain, ForkEnd
from actors.devnode.chain.commitment import Commitment
from actors.devnode.faults.faults import Faults
from actors.devnode.journal.journal import Journal, SealedSlot

_BEHIND_BEATS_MAX = 10  # Further behind (a stopped laptop), the lost beats are not made up for.


@dataclass(frozen=True, slots=True)
class Fork:
    """Being built, and lost with its last block."""

    first_slot: int
    last_is_dead: bool
    blocks_left: int  # The one being built included.


class Pacemaker:
    def __init__(self, chain: Chain, journal: Journal, clock: Clock, slot_ms: int, faults: Faults) -> None:
        self._chain, self._journal, self._clock, self._faults = chain, journal, clock, faults
        self._slot_seconds = slot_ms / 1000
        self._writer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="journal")
        self._flushing: asyncio.Future[int] | None = None
        self._broken = False
        self._fork: Fork | None = None

    async def run(self) -> None:
        """Beat until cancelled. Raises what the journal raises: the chain may not run ahead of its disk."""
        deadline = self._clock.monotonic() + self._slot_seconds
        while True:
            await asyncio.sleep(max(0.0, deadline - self._clock.monotonic()))
            skipped = 0
            if not self._faults.plan.slots.frozen:
                skipped = await self.beat()
            deadline += self._slot_seconds * (1 + skipped)
            now = self._clock.monotonic()
            if now - deadline > _BEHIND_BEATS_MAX * self._slot_seconds:
                deadline = now

    async def beat(self) -> int:
        """Seal one slot and start writing it, once the one before it is written. Returns how many slots it skipped."""
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

    def _seal(self, skip: int, fork: Fork | None) -> None:
        end = ForkEnd(fork.first_slot, fork.last_is_dead) if fork is not None and fork.blocks_left == 1 else None
        sealed = self._chain.seal(self._clock.now(), self._clock.monotonic(), skip, end)
        if fork is None:
            self._flushing = asyncio.get_running_loop().run_in_executor(self._writer, self._flush, sealed)
            self._flushing.add_done_callback(self._written)
        self._fork = None if fork is None or end else replace(fork, blocks_left=fork.blocks_left - 1)

    async def _purge(self, before_slot: int) -> None:
        """Forget history, but nothing that is not shown as final yet: restarts and streams still need that."""
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
        """Wait for the slot that is on its way to disk; raises what went wrong with it."""
        if self._flushing is not None:
            flushing, self._flushing = self._flushing, None
            self._broken = True  # Until the contrary is known: nothing may be written after a slot that was not.
            await flushing
            self._broken = False

    async def stop(self) -> None:
        """Seal and write what was still open, so that a clean end loses nothing. After a failure, only stop."""
        try:
            if not self._broken:
                await self.written()
                if self._fork is not None:
                    self._seal(0, replace(self._fork, blocks_left=1))
                self._seal(0, None)
                await self.written()
        finally:
            self._writer.shutdown()
