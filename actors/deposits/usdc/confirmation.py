"""A customer reports a deposit: it is looked up at once, in the same way as the watcher does.

Implements: `POST /account/confirm-deposit`; threat 22. The credits go to the authorities of the transfers,
whoever reports the transaction. A shell: core.py decides what a transaction is worth, and the owner of the account
credits it once. Callers that report the same transaction at the same time share one look-up.
"""

import asyncio
import contextlib

from actors.clock import Clock
from actors.deposits.usdc.actor import AWAY, DepositWatcher
from actors.deposits.usdc.chain import DepositChain
from actors.deposits.usdc.core import WORDS, Finding, FindingStatus, Outcome, Part, Reason
from actors.deposits.usdc.crediting import Credit, CreditedTransfer, Crediting
from actors.deposits.usdc.store import DepositStore
from actors.errors import Err, Refusal

LOOKS_MAX = 64  # Different transactions looked up at once; further callers are told to try again.


class Confirming:
    def __init__(
        self,
        account: str,
        watcher: DepositWatcher,
        chain: DepositChain,
        store: DepositStore,
        crediting: Crediting,
        clock: Clock,
    ) -> None:
        self._account, self._watcher, self._chain = account, watcher, chain
        self._store, self._crediting, self._clock = store, crediting, clock
        self._looks: dict[bytes, asyncio.Task[Outcome]] = {}

    async def confirm(self, signature: bytes) -> tuple[Outcome, bool]:
        """Confirm a transaction, and return the outcome and whether this call looked the transaction up.

        Of several calls at the same time only the first does; the others are told that it was processed already.
        """
        look = self._looks.get(signature)
        if look is not None:
            return _seen_again(await asyncio.shield(look)), False
        if len(self._looks) >= LOOKS_MAX:
            return Refusal(Err.SERVICE_TEMPORARILY_UNAVAILABLE, "too many deposits are being confirmed at once"), False
        look = self._looks[signature] = asyncio.create_task(self._look(signature))
        look.add_done_callback(lambda _: self._looks.pop(signature, None))
        with contextlib.suppress(Exception):  # `await look` below raises it.
            await asyncio.shield(look)
        return await look, True

    async def _look(self, signature: bytes) -> Outcome:
        try:
            return await self._confirm(signature)
        except AWAY:
            return Refusal(Err.SERVICE_TEMPORARILY_UNAVAILABLE, "the deposit cannot be looked up at the moment")

    async def _confirm(self, signature: bytes) -> Outcome:
        known = await self._store.find(self._account, signature)
        if known and all(row.status in (FindingStatus.CREDITED, FindingStatus.ASSIGNED) for row in known):
            return tuple(Part(row.pubkey, 0, None) for row in known if row.pubkey is not None)
        transaction = await self._chain.transaction(signature)
        if transaction is None:
            return await self._not_final(signature)
        judgment = self._watcher.judge(transaction, signature)
        slot, block_time = int(transaction["slot"]), transaction.get("blockTime")
        wanted = [Credit(signature, transfer, slot, block_time) for transfer in judgment.creditable]
        credited = await self._crediting.credit(wanted)
        findings = [*(row.finding for row in credited), *judgment.findings]
        if not _is_unrelated(findings):
            await self._store.record(self._account, findings, [signature], self._clock.now_ms())
        return _outcome(credited, findings)

    async def _not_final(self, signature: bytes) -> Refusal:
        known = await self._chain.known(signature)
        if known is None:
            return Refusal(Err.DEPOSIT_NOT_FOUND, "ask again when your node shows it as finalized")
        if known.failed:
            return Refusal(Err.INVALID_REQUEST, WORDS[Reason.FAILED])
        return Refusal(Err.DEPOSIT_NOT_FINAL, f"it is {known.level}; credits come when it is finalized")


def _is_unrelated(findings: list[Finding]) -> bool:
    """Return whether no finding concerns the deposit account. If these were recorded, anybody could fill the table."""
    return all(row.status == FindingStatus.IGNORED for row in findings)


def _outcome(credited: list[CreditedTransfer], findings: list[Finding]) -> Outcome:
    parts: dict[bytes, Part] = {}
    for row in credited:
        pubkey = row.finding.pubkey
        if pubkey is not None:
            before = parts.get(pubkey, Part(pubkey, 0, None))
            balance = row.balance if row.added else before.balance
            parts[pubkey] = Part(pubkey, before.added + row.added, balance)
    if parts:
        return tuple(parts.values())
    reasons = [row.reason for row in findings if row.reason]
    return Refusal(Err.INVALID_REQUEST, WORDS[reasons[0]] if reasons else WORDS[Reason.NOTHING_CAME])


def _seen_again(outcome: Outcome) -> Outcome:
    if isinstance(outcome, Refusal):
        return outcome
    return tuple(Part(part.pubkey, 0, part.balance) for part in outcome)
