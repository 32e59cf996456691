"""Finishes the races that nobody drives: those of a racer that died, and those whose window ended without an outcome.

Implements: hostile input 18; decisions, "expired send"; interface, "sendAndConfirm outcome" (`unknown`: the charge is
pending until recovery proves the result).
The shell: core.py decides what proves an outcome. Repeating any of it changes nothing, so two racers may run it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from actors.clock import Clock
from actors.sends import core
from actors.sends.actor import LEASE_MS, SendRacer
from actors.sends.chain import SendChain
from actors.sends.core import Race, RaceStep
from actors.sends.store import RaceStore, RacesUnavailable

logger = logging.getLogger(__name__)

_BEAT_SECONDS = 1.0
_LOOK_AGAIN_MS = 4_000
_AT_ONCE = 64
_FORGET_BEATS = 3_600
_KEEP_MS = 30 * 86_400_000


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
        """At the start: everything that is not settled, also what a former racer holds for some time yet. Gives its
        number. Raises RacesUnavailable."""
        found = 0
        until_ms = self._clock.now_ms() + LEASE_MS
        while races := await self._store.due(until_ms, until_ms + 1, _AT_ONCE):
            await self._carry_on(races)
            found += len(races)
        return found

    async def carry_on(self) -> int:
        """Take the next step of every race that is due. Gives their number. Raises RacesUnavailable."""
        now_ms = self._clock.now_ms()
        races = await self._store.due(now_ms, now_ms + _LOOK_AGAIN_MS, _AT_ONCE)
        await self._carry_on(races)
        return len(races)

    async def run(self) -> None:
        """Until cancelled. A store that is away is asked again."""
        beats, taken_over = 0, False
        while True:
            try:
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
            await self._racer.settle_all(race)
            return
        if self._racer.drives(race.signature):
            return
        now_ms = self._clock.now_ms()
        seen, proofs = await self._chain.search(race.signature, race.nonce_account)
        # Each node proves for its own blocks; the first that proves an expiry is enough.
        steps = [core.next_step(race, slot, now_ms, seen, proof) for proof in (*proofs, None)]
        step = RaceStep.EXPIRE if RaceStep.EXPIRE in steps else steps[0]
        if step in (RaceStep.CONFIRM, RaceStep.FAIL, RaceStep.EXPIRE, RaceStep.GIVE_UP):
            await self._racer.end(race, step, seen)
        elif not core.is_over(race, slot, now_ms):
            self._racer.drive(race)  # Its racer died inside the window: it is sent again by the same rules.
