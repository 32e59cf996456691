"""Checks actors of a kind: whether each answers, is silent, or has ended as far as Ray knows.

Implements: design, "Owners, for every kind of actor" (one that hangs). A shell. It keeps the handles of actors, as
calls by these go straight to them: while Ray's head is away nobody is found by a name, and that is no sign of anything.
"""

import asyncio
from collections.abc import Callable, Collection
from enum import Enum
from typing import Any

from actors import hosting


class Pulse(Enum):
    ANSWERED = "answered"
    SILENT = "silent"  # No answer in time: it hangs, or its machine was just lost.
    ABSENT = "absent"  # Ray knows that it has ended, and restarts it, or has done so.
    UNKNOWN = "unknown"  # Ray's head does not tell where it is.

    @property
    def may_serve(self) -> bool:
        return self in (Pulse.ANSWERED, Pulse.UNKNOWN)


class Pulses:
    """refer: makes a reference of a name."""

    def __init__(self, refer: Callable[[str], Any] = hosting.Reference) -> None:
        self._refer = refer
        self._references: dict[str, Any] = {}

    async def look(self, names: Collection[str], answer_seconds: float) -> dict[str, Pulse]:
        """Ask all of them at once for their health."""
        found = await asyncio.gather(*(self._look_at(name, answer_seconds) for name in names))
        return dict(zip(names, found, strict=True))

    async def _look_at(self, name: str, answer_seconds: float) -> Pulse:
        reference = self._references.setdefault(name, self._refer(name))
        try:
            async with asyncio.timeout(answer_seconds):
                await reference.handle()
        except (TimeoutError, RuntimeError):
            return Pulse.UNKNOWN
        except hosting.ActorUnreachable:
            return Pulse.ABSENT
        try:
            await hosting.ask(reference, "health", wait_seconds=answer_seconds)
        except hosting.ActorUnreachable as error:
            return Pulse.SILENT if isinstance(error.__cause__, TimeoutError) else Pulse.ABSENT
        return Pulse.ANSWERED
