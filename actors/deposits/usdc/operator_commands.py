"""Carries the operator's commands on transfers out: list, count, explain, assign.

Implements: the operator's reference of this context. A shell: the watcher, the store and the owners of accounts do the
work; a reply that is a text is one sentence about what went wrong.
"""

from typing import Any

from actors.deposits.api import AssignTransfer, CountTransfers, ExplainTransaction, ListTransfers, WatcherCommand
from actors.deposits.usdc.actor import AWAY, DepositWatcher
from actors.deposits.usdc.chain import signature_of
from actors.deposits.usdc.confirmation import Confirming
from actors.deposits.usdc.core import FindingStatus
from actors.deposits.usdc.endpoints import finding_body, status_of
from actors.deposits.usdc.store import DepositStore
from actors.errors import Err, Refusal
from actors.units import parse_pubkey

LISTING_MAX = 500
_REASON_MAX = 200
_NO_SIGNATURE = "that is not the base58 text of a signature"


class OperatorCommands:
    """account: address of the deposit account."""

    def __init__(self, account: str, watcher: DepositWatcher, confirming: Confirming, store: DepositStore) -> None:
        self._account, self._watcher, self._confirming, self._store = account, watcher, confirming, store

    async def ask(self, command: WatcherCommand) -> Any:
        try:
            match command:
                case ListTransfers(status, limit, offset):
                    return await self._listing(status, limit, offset)
                case CountTransfers():
                    return await self._totals()
                case ExplainTransaction(signature):
                    return await self._explain(signature)
                case AssignTransfer():
                    return await self._assign(command)
        except AWAY as error:
            if isinstance(command, AssignTransfer):
                return f"the transfer may or may not be assigned now; repeat the command: {error}"
            return f"the store does not answer: {error}"

    async def _listing(self, status: str, limit: int, offset: int) -> list[dict[str, Any]] | str:
        try:
            wanted = status_of(status)
        except KeyError:
            return f"no such status: {status}; there are all, {', '.join(each.name.lower() for each in FindingStatus)}"
        found = await self._store.listing(self._account, wanted, max(1, min(limit, LISTING_MAX)), max(0, offset))
        return [finding_body(row) for row in found]

    async def _totals(self) -> dict[str, Any]:
        totals = await self._store.totals(self._account)
        counts = {status.name.lower(): count for status, count in totals.counts.items()}
        gaps = [f"{gap.after_slot + 1} to {gap.before_slot - 1}" for gap in totals.gaps]
        return {"account": self._account, "waiting": totals.waiting, **counts, "slots_never_seen": gaps}

    async def _explain(self, signature_text: str) -> dict[str, Any] | str:
        """Look the transaction up again and give its outcome."""
        try:
            signature = signature_of(signature_text)
        except ValueError:
            return _NO_SIGNATURE
        outcome, _ = await self._confirming.confirm(signature)
        found = await self._store.find(self._account, signature)
        if isinstance(outcome, Refusal) and not found:
            # The books have nothing about this transaction, so there is nothing to show.
            is_foreign = outcome.err is Err.INVALID_REQUEST
            return f"{outcome.detail}; that account is {self._account}" if is_foreign else outcome.message
        verdict = (outcome.detail or outcome.message) if isinstance(outcome, Refusal) else "credited"
        return {"verdict": verdict, "transfers": [finding_body(row) for row in found]}

    async def _assign(self, command: AssignTransfer) -> dict[str, Any] | str:
        index, reason, pubkey = command.index, command.reason, parse_pubkey(command.pubkey)
        if pubkey is None:
            return f"{command.pubkey!r} is not a base58 public key of 32 bytes"
        if not 0 < len(reason) <= _REASON_MAX or not reason.isprintable():
            return f"the reason must be 1 to {_REASON_MAX} printable characters"
        try:
            signature = signature_of(command.signature)
        except ValueError:
            return _NO_SIGNATURE
        found = await self._store.find(self._account, signature)
        listed = [row for row in found if row.status == FindingStatus.LISTED and index in (None, row.index)]
        if len(listed) != 1:
            return f"{len(listed)} transfers of it are listed; `deposits explain` shows them, --transfer picks one"
        if listed[0].amount <= 0:
            return "its amount is not known; give credits with `accounts grant` instead"
        row = await self._watcher.assign(listed[0], pubkey, reason)
        return row if isinstance(row, str) else finding_body(row)
