"""The client of the deposit watcher.

Implements: `POST /account/confirm-deposit` as seen by the doors; the operator's commands on deposits. No rules here.
"""

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from typing import Any

from actors import hosting
from actors.accounts.api import Answer
from actors.deposits.endpoints import confirm_body
from actors.errors import Err

logger = logging.getLogger(__name__)

WATCHER_ACTOR_NAME = "deposit-watcher"
_PULSE_SECONDS = 5.0
_CONFIRM_SECONDS = 25.0


class DepositsClient:
    """Belongs to one replica. It calls every few seconds: a watcher that Ray restarted begins with its first call."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        self._task: asyncio.Task[None] | None = None
        self.state: Mapping[str, Any] = {}  # From the watcher's latest answer; empty while it does not answer.

    def start(self) -> None:
        self._task = asyncio.create_task(self._pulse())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def confirm(self, signature: bytes, pubkey: bytes, balance: int | None) -> Answer:
        """pubkey, balance: of the caller. balance None: it has no account. The answer tells about the caller alone."""
        try:
            refusal, detail, parts, looked = await hosting.ask(
                self._handle, "confirm", signature, wait_seconds=_CONFIRM_SECONDS
            )
        except hosting.ActorUnreachable:
            return Answer(Err.SERVICE_TEMPORARILY_UNAVAILABLE.name, "deposits cannot be looked up at the moment")
        if refusal is not None:
            return Answer(refusal, detail)
        return Answer(body=confirm_body(pubkey, balance, parts, looked))

    async def _pulse(self) -> None:
        while True:
            with contextlib.suppress(hosting.ActorUnreachable):
                self.state = {}
                self.state = await hosting.ask(self._handle, "health")
            await asyncio.sleep(_PULSE_SECONDS)
