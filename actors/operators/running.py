"""Looks at the running product: which actors answer, and which figures each process reports.

Implements: decisions, "The operators' page" (owners, alerts that are on). A shell. Concurrent requests share one look,
whose result is valid for LOOK_SECONDS: however many operators look, each actor is asked once in that time.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from actors import hosting
from actors.clock import Clock
from actors.errors import Err, Refusal
from actors.operators.ports import ProductLook
from actors.telemetry.figures import ProcessFigures
from actors.telemetry.metrics_page import METRICS_ACTOR_PREFIX

LOOK_SECONDS = 2.0
_ANSWER_SECONDS = 4.0
_ASKED_AT_ONCE = 6  # Actors asked at once: starting a call to an actor takes the event loop up to a millisecond.
_NO_CLUSTER = Refusal(Err.SERVICE_TEMPORARILY_UNAVAILABLE, "the actors of this product cannot be listed at the moment")


class RunningProduct:
    """has_figures: whether processes report their figures (telemetry.metrics_port)."""

    def __init__(self, clock: Clock, has_figures: bool) -> None:
        self._clock, self._has_figures = clock, has_figures
        self._looking: asyncio.Task[ProductLook | Refusal] | None = None
        self._looked_at = -LOOK_SECONDS

    async def look(self) -> ProductLook | Refusal:
        now = self._clock.monotonic()
        if self._looking is None or (self._looking.done() and now - self._looked_at >= LOOK_SECONDS):
            self._looked_at = now
            self._looking = asyncio.create_task(self._look())
        return await asyncio.shield(self._looking)

    async def _look(self) -> ProductLook | Refusal:
        try:
            names = await hosting.running()
        except hosting.ActorUnreachable:
            return _NO_CLUSTER
        pages = [name for name in names if name.startswith(METRICS_ACTOR_PREFIX)]
        states = await self._asked(names, "actor_state")
        reports = await self._asked(pages if self._has_figures else (), "figures")
        figures: Sequence[ProcessFigures] = [one for report in reports for one in report or ()]
        actors = {name: state or {} for name, state in zip(names, states, strict=True)}
        return ProductLook(self._clock.now(), actors, figures if self._has_figures else None)

    async def _asked(self, names: Sequence[str], method: str) -> list[Any]:
        places = asyncio.Semaphore(_ASKED_AT_ONCE)

        async def asked(name: str) -> Any:
            async with places:
                (answer,) = await hosting.ask_each([hosting.Reference(name)], method, _ANSWER_SECONDS)
            return answer

        return list(await asyncio.gather(*map(asked, names)))
