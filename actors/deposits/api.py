"""The client of the deposit watcher.

Implements: `POST /account/confirm-deposit` as seen by the doors; the operator's commands on deposits. No rules here.
"""

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from typing import Any

import msgspec

from actors import hosting
from actors.accounts.api import DepositConfirmation
from actors.deposits.core import Outcome, confirmation
from actors.errors import Err, Refusal

logger = logging.getLogger(__name__)

WATCHER_ACTOR_NAME = "deposit-watcher"
_PULSE_SECONDS = 5.0
_CONFIRM_SECONDS = 25.0


class ListTransfers(msgspec.Struct, frozen=True):
    """Operator: transfers of this status, newest first; `all` for every status."""

    status: str
    limit: int
    offset: int


class CountTransfers(msgspec.Struct, frozen=True):
    """Operator: how many transfers there are of each status."""


class ExplainTransaction(msgspec.Struct, frozen=True):
    """Operator: look a transaction up, credit what is due, and tell what became of each transfer."""

    signature: str  # Base58.


class AssignTransfer(msgspec.Struct, frozen=True):
    """Operator: give a listed transfer to an account. index None: the only one of this transaction that is listed."""

    signature: str
    index: int | None
    pubkey: str
    reason: str


WatcherCommand = ListTransfers | CountTransfers | ExplainTransaction | AssignTransfer


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

    async def confirm(self, signature: bytes, pubkey: bytes, balance: int | None) -> DepositConfirmation | Refusal:
        """Report a transaction.

        pubkey, balance: of the caller; None without an account. The reply is about the caller only.
        """
        outcome: Outcome
        try:
            outcome, looked = await hosting.ask(self._handle, "confirm", signature, wait_seconds=_CONFIRM_SECONDS)
        except hosting.ActorUnreachable:
            return Refusal(Err.SERVICE_TEMPORARILY_UNAVAILABLE, "deposits cannot be looked up at the moment")
        return outcome if isinstance(outcome, Refusal) else confirmation(pubkey, balance, outcome, looked)

    async def _pulse(self) -> None:
        while True:
            with contextlib.suppress(hosting.ActorUnreachable):
                self.state = {}
                self.state = await hosting.ask(self._handle, "health")
            await asyncio.sleep(_PULSE_SECONDS)
