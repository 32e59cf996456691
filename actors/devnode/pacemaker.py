"""The beat: seals a slot every slot_ms and sees it to disk.

Implements: slots against a monotonic deadline, late ones made up for at once; the next seal waits until the last
one is in the journal, so a killed node loses at most the slot it was building.
Not here: what sealing means (chain.py).
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from actors.clock import Clock
from actors.devnode.chain import Chain
from actors.devnode.journal import Journal, SealedSlot

_BEHIND_BEATS_MAX = 10  # Further behind (a stopped laptop), the lost beats are not made up for.


@dataclass(slots=True)
class PaceControls:
    """Switches that fault injection may turn."""

    frozen: bool = False  # No slot is sealed while set.
    skip_slots: int = 0  # Slots without a block, at the next seal.


class Pacemaker:
    def __init__(self, chain: Chain, journal: Journal, clock: Clock, slot_ms: int) -> None:
        self.controls = PaceControls()
        self._chain, self._journal, self._clock = chain, journal, clock
        self._slot_seconds = slot_ms / 1000
        self._writer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="journal")
        self._flushing: asyncio.Future[int] | None = None
        self._broken = False

    async def run(self) -> None:
        """Beat until cancelled. Raises what the journal raises: the chain may not run ahead of its disk."""
        deadline = self._clock.monotonic() + self._slot_seconds
        while True:
            await asyncio.sleep(max(0.0, deadline - self._clock.monotonic()))
            if not self.controls.frozen:
                await self.beat()
            deadline += self._slot_seconds
            now = self._clock.monotonic()
            if now - deadline > _BEHIND_BEATS_MAX * self._slot_seconds:
                deadline = now

    async def beat(self) -> None:
        """Seal one slot and start writing it, once the one before it is written."""
        await self.written()
        skip, self.controls.skip_slots = self.controls.skip_slots, 0
        sealed = self._chain.seal(self._clock.now(), self._clock.monotonic(), skip)
        self._flushing = asyncio.get_running_loop().run_in_executor(self._writer, self._flush, sealed)
        self._flushing.add_done_callback(self._written)

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
                await self.beat()
                await self.written()
        finally:
            self._writer.shutdown()
