"""Finishes the races that nobody drives: those of a racer that died, and those whose window ended without an outcome.

Implements: threat 18; decisions, "expired send"; interface, "sendAndConfirm outcome" (`unknown`: the charge is
pending until recovery proves the result).
The shell: core.py decides what proves an outcome. Repeating any of it changes nothing, so two racers may run it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from actors.clock import Clock
from actors.sends import core
from actors.sends.actor import SendRacer
from actors.sends.chain import SendChain
from actors.sends.core import Race, RaceStep
from actors.sends.store import RaceStore, RacesUnavailable

logger = logging.getLogger(__name__)

_BEAT_SECONDS = 1.0
_LOOK_AGAIN_MS = 4_000
_AT_ONCE = 64
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

    async def take_over(self) -> int:
        """Take the next step of every race that is not settled, also of those that are due later. Gives their number.
        Raises RacesUnavailable.

        For the start, when a former racer still holds some, and for a wall clock that was set back: then every
        race would be due too late.
        """
        found, now_ms = 0, self._clock.now_ms()
        await self._store.hasten(now_ms)
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
        beats, taken_over, ahead_ms = 0, False, self._ahead_ms()
        while True:
            try:
                earlier_ms, ahead_ms = ahead_ms, self._ahead_ms()
                if ahead_ms < earlier_ms - _JUMP_MS:
                    taken_over = False
                if not taken_over:
                    found = await self.take_over()
                    taken_over = True
                    logger.info("recovery found %d sends to finish", found)
                await self.carry_on()
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
