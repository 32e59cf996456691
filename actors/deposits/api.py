"""The client of the deposit watcher.

Implements: `POST /account/confirm-deposit` as seen by the doors; the operator's commands on deposits. No rules here.
"""

import logging

import msgspec

from actors import hosting
from actors.accounts.api import DepositConfirmation
from actors.deposits.usdc.core import Outcome, confirmation
from actors.errors import Err, Refusal

logger = logging.getLogger(__name__)

WATCHER_ACTOR_NAME = "deposit-watcher"
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


class DepositsClient(hosting.ActorClient):
    """Asks the deposit watcher on behalf of one replica."""

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
