"""The client of the deposit watcher.

Implements: `POST /account/confirm-deposit` as seen by the doors; the operator's commands on deposits. No rules here.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from actors import hosting
from actors.accounts.api import DepositConfirmation
from actors.actor_client import ActorClient
from actors.deposits.usdc.core import Outcome, confirmation
from actors.errors import Err, Refusal

logger = logging.getLogger(__name__)

WATCHER_ACTOR_NAME = "deposit-watcher"
STANDBY_ACTOR_NAME = f"{WATCHER_ACTOR_NAME}-1"
_CONFIRM_SECONDS = 25.0
_STATE_SECONDS = 3.0


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


class StandsBy(msgspec.Struct, frozen=True):
    """Reply of a standby watcher, which has done nothing."""


async def ask_watcher(watchers: Sequence[Any], method: str, *arguments: Any, wait_seconds: float) -> Any:
    """Return the answer of the first of these that watches. Raises hosting.ActorUnreachable.

    One that does not answer may have done the work, or do it yet; each kind of work may be repeated.
    """
    unreachable = hosting.ActorUnreachable("the other watcher of deposits stands by")
    for watcher in watchers:
        try:
            answer = await hosting.ask(watcher, method, *arguments, wait_seconds=wait_seconds)
        except hosting.ActorUnreachable as error:
            unreachable = error
            continue
        if not isinstance(answer, StandsBy):
            return answer
    raise unreachable


class DepositsClient:
    """Asks the watchers of deposits on behalf of one replica: the one that watches, and the other one when it has taken
    over. watchers: references to them."""

    def __init__(self, watchers: Sequence[Any]) -> None:
        self._watchers = [(watcher, ActorClient(watcher, _STATE_SECONDS)) for watcher in watchers]

    def start(self) -> None:
        for _, client in self._watchers:
            client.start()

    async def stop(self) -> None:
        await asyncio.gather(*(client.stop() for _, client in self._watchers))

    @property
    def state(self) -> Mapping[str, Any]:
        """Return the latest health of the active watcher; empty while none is known."""
        return max((client.state for _, client in self._watchers), key=_epoch)

    async def confirm(self, signature: bytes, pubkey: bytes, balance: int | None) -> DepositConfirmation | Refusal:
        """Report a transaction.

        pubkey, balance: of the caller; None without an account. The reply is about the caller only.
        """
        outcome: Outcome
        # A watcher that has hung has an older epoch than the one that took over.
        by_epoch = sorted(self._watchers, key=lambda each: -_epoch(each[1].state))
        watchers = [watcher for watcher, _ in by_epoch]
        try:
            outcome, looked = await ask_watcher(watchers, "confirm", signature, wait_seconds=_CONFIRM_SECONDS)
        except hosting.ActorUnreachable:
            return Refusal(Err.SERVICE_TEMPORARILY_UNAVAILABLE, "deposits cannot be looked up at the moment")
        return outcome if isinstance(outcome, Refusal) else confirmation(pubkey, balance, outcome, looked)


def _epoch(state: Mapping[str, Any]) -> int:
    """Return the epoch in a watcher's health. 0: it stands by. -1: it does not answer."""
    return int(state.get("epoch", 0)) if state else -1
