"""Follows the health of one actor, for a replica that uses it.

Implements: interface, "Service health". A shell. Not here: how an actor is found and asked (hosting.py).
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from actors import hosting
from actors.background import Background

logger = logging.getLogger(__name__)

_ANSWER_SECONDS, _PULSE_SECONDS = 10.0, 5.0
_STARTING_PULSES = 3


class ActorClient:
    """A client of one actor, in one replica. It asks for the actor's health every few seconds, because an actor that
    Ray restarted begins with its first call."""

    def __init__(self, handle: Any, answer_seconds: float = _ANSWER_SECONDS) -> None:
        self._handle, self._answer_seconds = handle, answer_seconds
        self._background = Background(logger, "asking for an actor's health failed")
        self.state: Mapping[str, Any] = {}  # The latest health; empty while the actor does not answer.
        self._has_answered, self._unanswered = False, 0

    def start(self) -> None:
        self._background.start(self._pulse())

    async def stop(self) -> None:
        await self._background.stop()

    @property
    def is_starting(self) -> bool:
        """Return whether the actor has never answered, and started only recently."""
        return not self._has_answered and self._unanswered < _STARTING_PULSES

    async def _pulse(self) -> None:
        while True:
            try:
                self.state = await hosting.ask(self._handle, "health", wait_seconds=self._answer_seconds)
                self._has_answered, self._unanswered = True, 0
            except hosting.ActorUnreachable:
                self.state = {}
                self._unanswered += 1
            await asyncio.sleep(_PULSE_SECONDS)
