"""Keeps as many actors of a kind running as an operator wants.

Implements: design, "Owners, for every kind of actor"; launch/README.md, "cluster scale". A shell. CountFollower serves
every kind that scales; Director the kinds that share slices (team.py), where it also sees to it that an actor that does
not answer holds no slice for long. Two directors at once do no harm: every step begins from the stored state.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from actors import hosting
from actors.ownership.api import Commanded, OwnershipUnavailable
from actors.ownership.pulses import Pulses
from actors.ownership.silence import AGAIN_SECONDS, ANSWER_SECONDS, LOOK_SECONDS, Silence
from actors.ownership.spreading import Refer, held_by, spread_and_end_others, start_all
from actors.ownership.store import OwnershipStore
from actors.ownership.team import Team, is_even

logger = logging.getLogger(__name__)

Step = Callable[[Commanded], Awaitable[None]]


class CountFollower:
    """step: carries out what is wanted, or returns at once where nothing is to be done. It may raise, and is called
    again. away: what it raises while something does not answer."""

    def __init__(
        self,
        kind: str,
        store: OwnershipStore,
        step: Step,
        away: tuple[type[Exception], ...] = (),
        look_seconds: float = LOOK_SECONDS,
    ) -> None:
        self._kind, self._store, self._step, self._look_seconds = kind, store, step, look_seconds
        self._away: tuple[type[Exception], ...] = (OwnershipUnavailable, hosting.ActorUnreachable, *away)
        self._now = asyncio.Event()
        self._carried_out: int | None = None  # The number that the present step is for.

    async def scale(self, count: int) -> None:
        """Have this many from now on. Raises OwnershipUnavailable."""
        before = await self._store.commanded(self._kind)
        await self._store.set_wanted(self._kind, count, before.setting if before else count)
        self._now.set()

    async def spread(self, slices: Mapping[str, int]) -> dict[str, Any]:
        """Tell how many are wanted, and whether the work is spread over so many. slices: how much of it each has.
        Raises OwnershipUnavailable."""
        commanded = await self._store.commanded(self._kind)
        wanted = commanded.wanted if commanded else len(slices)
        is_even = len(slices) == wanted and (not slices or max(slices.values()) - min(slices.values()) <= 1)
        # A step for a number of before moves slices yet, and another one will move them back.
        is_even = is_even and self._carried_out in (None, wanted)
        return {"wanted": wanted, "is_even": is_even, "slices": dict(slices)}

    def look_soon(self, seconds: float) -> None:
        """Take the next look after this time, or earlier."""
        asyncio.get_running_loop().call_later(seconds, self._now.set)

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._look_seconds):
                    await self._now.wait()
            self._now.clear()
            try:
                commanded = await self._store.commanded(self._kind)
                if commanded is not None:
                    self._carried_out = commanded.wanted
                    await self._step(commanded)
            except self._away as error:
                logger.warning("%s are not as many as wanted yet: %s", self._kind, error)
            except Exception:  # A bug, or an unavailable Ray, must not end it.
                logger.exception("having as many %s as wanted failed; it is tried again", self._kind)
            self._carried_out = None


class Director:
    """Runs in each actor of a team. The first of them that answers directs; the others only see whether those before
    them answer.

    name: of this actor. place: starts the actor with a name; blocks.
    """

    def __init__(
        self,
        team: Team,
        store: OwnershipStore,
        name: str,
        place: Callable[[str], Any],
        refer: Refer = hosting.Reference,
    ) -> None:
        self._team, self._store, self._name, self._place, self._refer = team, store, name, place, refer
        self._counts = CountFollower(team.kind, store, self.step)
        self._silence, self._pulses = Silence(), Pulses(refer)

    async def scale(self, count: int) -> None:
        assert 1 <= count <= self._team.actors_max, count
        await self._counts.scale(count)

    async def spread(self) -> dict[str, Any]:
        return await self._counts.spread(await held_by(self._store, self._team))

    async def run(self) -> None:
        await self._counts.run()

    async def step(self, commanded: Commanded) -> None:
        """Check once, and move misplaced slices. Raises OwnershipUnavailable, ActorUnreachable."""
        names = self._team.names(min(commanded.wanted, self._team.actors_max))
        before = names[: names.index(self._name)] if self._name in names else names
        away = await self._away_of(before)
        if len(away) < len(before):
            return  # An earlier one directs.
        away |= await self._away_of([name for name in names if name not in before and name != self._name])
        counts = await held_by(self._store, self._team)
        if not away and is_even(self._team, counts, names):
            return
        running = await hosting.running(self._team.name_prefix)
        # Those that run stay as they are: a deployment replaces actors with other settings, this one included.
        missing = [name for name in names if name not in running]
        await start_all(missing, self._place)
        away -= set(missing)
        self._silence.forgive(missing)
        if not is_even(self._team, counts, [name for name in names if name not in away]):
            await spread_and_end_others(self._store, self._team, names, self._refer, away)

    async def _away_of(self, names: Sequence[str]) -> set[str]:
        """Ask these actors. Returns the silent ones, whose slices others take until they answer."""
        pulses = await self._pulses.look(names, ANSWER_SECONDS)
        away = self._silence.heard({name: pulse.may_serve for name, pulse in pulses.items()})
        if self._silence.is_in_doubt(names):
            self._counts.look_soon(AGAIN_SECONDS)
        return away
