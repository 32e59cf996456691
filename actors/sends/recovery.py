"""Finishes races without a running window: those of a racer that died, and those whose window ended without an outcome.

Implements: threat 18; decisions, "expired send"; interface, "sendAndConfirm outcome" (`unknown`: the charge is pending
until recovery proves the result).
The shell: core.py decides what proves an outcome. Repeating any of it changes nothing. Each racer recovers the races of
the slices that it serves.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection

from actors.clock import Clock
from actors.ownership.api import SliceLost
from actors.sends import core
from actors.sends.actor import SendRacer
from actors.sends.chain import SendChain
from actors.sends.core import Race, RaceStep
from actors.sends.slices import SLICES
from actors.sends.store import RaceStore, RacesUnavailable

logger = logging.getLogger(__name__)

_BEAT_SECONDS = 1.0
_LOOK_AGAIN_MS = 4_000
_AT_ONCE = 256  # Statuses in one request.
_FORGET_BEATS = 3_600
_KEEP_MS = 30 * 86_400_000
_JUMP_MS = 1_000


class RaceRecovery:
    def __init__(
        self,
        racer: SendRacer,
        chain: SendChain,
        store: RaceStore,
        clock: Clock,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._racer, self._chain, self._store, self._clock, self._sleep = racer, chain, store, clock, sleep
        self._fresh: set[int] = set()

    def begin(self, slices: Collection[int]) -> None:
        """Have the next round take over the races of these newly taken slices."""
        self._fresh.update(slices)

    async def take_over(self, slices: Collection[int] = range(SLICES)) -> int:
        """Take the next step of every race of these slices that is not settled, also of those that are due later. Gives
        the number of all that are due. Raises RacesUnavailable.

        For slices that were taken, whose former racer still has a lease of some races, and for a wall clock that was
        set back: then every race would be due too late.
        """
        found, now_ms = 0, self._clock.now_ms()
        await self._store.hasten(now_ms, slices)
        while races := await self._store.due(now_ms, now_ms + _LOOK_AGAIN_MS, _AT_ONCE):
            await self._carry_on(races)
            found += len(races)
        return found

    async def carry_on(self) -> int:
        """Take the next step of every race that is due. Gives their number. Raises RacesUnavailable."""
        await self._racer.broadcasts.store_again()
        now_ms = self._clock.now_ms()
        races = await self._store.due(now_ms, now_ms + _LOOK_AGAIN_MS, _AT_ONCE)
        await self._carry_on(races)
        return len(races)

    async def run(self) -> None:
        """Until cancelled. A store that is away is asked again."""
        beats, ahead_ms = 0, self._ahead_ms()
        while True:
            try:
                earlier_ms, ahead_ms = ahead_ms, self._ahead_ms()
                if ahead_ms < earlier_ms - _JUMP_MS:
                    self.begin(range(SLICES))
                if fresh := set(self._fresh):
                    found = await self.take_over(fresh)
                    self._fresh -= fresh
                    logger.info("recovery found %d sends to finish in %d slices", found, len(fresh))
                while await self.carry_on() == _AT_ONCE:
                    pass  # More are due: thousands, if a window of many ended without an outcome.
                if beats % _FORGET_BEATS == 0:
                    await self._store.forget(self._clock.now_ms() - _KEEP_MS)
                beats += 1
            except RacesUnavailable as error:
                logger.warning("open sends wait for the store: %s", error)
            except Exception:  # A bug with one race must not stop recovery for good.
                logger.exception("a round of recovery failed")
            await self._sleep(_BEAT_SECONDS)

    def _ahead_ms(self) -> float:
        """How far the wall clock is ahead of the one that never jumps."""
        return self._clock.now_ms() - self._clock.monotonic() * 1000

    async def _carry_on(self, races: list[Race]) -> None:
        if races:
            slot = await self._chain.slot()
            await asyncio.gather(*(self._take_safely(race, slot) for race in races))

    async def _take_safely(self, race: Race, slot: int | None) -> None:
        try:
            await self._take(race, slot)
        except RacesUnavailable:
            raise
        except SliceLost:
            logger.info("another racer finishes a send: its slice has moved")
        except Exception:  # A bug with one race must not stop the others.
            logger.exception("recovery of one send failed")

    async def _take(self, race: Race, slot: int | None) -> None:
        if not race.state.open:
            await self._racer.endings.settle_all(race)
            return
        if self._racer.drives(race.signature):
            return
        now_ms = self._clock.now_ms()
        seen, proofs = await self._chain.search(race.signature, race.nonce_account)
        step = core.next_step(race, slot, now_ms, seen, proofs, self._chain.nodes)
        if step in (RaceStep.CONFIRM, RaceStep.FAIL, RaceStep.EXPIRE, RaceStep.GIVE_UP):
            await self._racer.end(race, step, seen)
        elif not core.is_over(race, slot, now_ms):
            self._racer.drive(race)  # Its racer died inside the window: it is sent again by the same rules.
