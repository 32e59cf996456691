"""The Ray actor that several small actors of a local run have together.

Implements: decisions, "Small actors of a local run". A thin wrapper around small_actors.py: it has the log and the
watch of the event loop for all of them.
"""

import importlib
import os
from typing import Any

from actors import hosting, small_actors
from actors.actor_settings import OF_EVERY_ACTOR
from actors.config import Config
from actors.small_actors import SHARED_ACTOR_NAME, RaySpecs, SmallActors, Spec
from actors.telemetry.metrics_page import ReportingActor

_CALLS_AT_ONCE = 20_000  # Calls of all of them; each actor refuses its own surplus.


class SharedProcessActor(ReportingActor):
    """Its methods begin with making the actors, so that a process that was started again has them with its first
    call.

    apart: how the names of actors begin that it does not take. needs: a module that imports their classes, which it
    loads while nobody waits for them.
    """

    def __init__(self, config: Config, fingerprint: str, apart: tuple[str, ...] = (), needs: str = "") -> None:
        super().__init__(config, fingerprint, SHARED_ACTOR_NAME)
        self._actors, self._apart, self._needs = SmallActors(RaySpecs(), _end_process), apart, needs
        small_actors.here = self._actors

    async def place(self, spec: Spec) -> bool:
        """Add this actor. False: it must have its own process."""
        await self._ready()
        if spec.name.startswith(self._apart):
            return False
        self._actors.place(spec)
        return True

    async def call(self, name: str, method: str, arguments: tuple[Any, ...]) -> Any:
        await self._ready()
        return await self._actors.call(name, method, arguments)

    async def _assemble(self) -> None:
        if self._needs:
            importlib.import_module(self._needs)
        self._actors.start()


def _end_process() -> None:
    os._exit(1)  # Ray restarts it.


def place_shared_process(config: Config, apart: tuple[str, ...] = (), needs: str = "") -> None:
    """Start the process that small actors are placed in from now on. Needs a connected Ray; blocks."""
    hosting.place_with_settings(
        SharedProcessActor, SHARED_ACTOR_NAME, config, OF_EVERY_ACTOR, apart, needs, calls_at_once=_CALLS_AT_ONCE
    )
