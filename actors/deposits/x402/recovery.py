"""The follow-up of x402 payments: open ones are carried to their end, and the sponsor's balance is watched.

Implements: decisions, "Two ways to pay by x402" (taken back by an `adjustment` when it never becomes final); threat 25;
recovery of payments whose process was killed. The shell: x402/proof.py decides which rows are used, x402/states.py the
next step.

Every replica runs this; the store gives each due payment to one of them at a time.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace

from actors.accounts.api import OwnersClient, OwnerUnavailable, TakeBackDeposit
from actors.clock import Clock
from actors.deposits.x402.network import PaymentNetwork
from actors.deposits.x402.proof import fault_of
from actors.deposits.x402.rules import Rules
from actors.deposits.x402.settler import TRANSFER_INDEX, SettlementLimits, Settler
from actors.deposits.x402.states import (
    Heights,
    PaymentState,
    Record,
    Step,
    has_failed,
    most_telling,
    next_step,
)
from actors.deposits.x402.store import PaymentStore, PaymentsUnavailable
from actors.errors import Err
from actors.units import base58_text
from actors.upstream.signature_status import SignatureStatus

logger = logging.getLogger(__name__)

_BEAT_SECONDS = 2.0
_BALANCE_BEATS = 15  # Between two looks at the sponsor's balance.
_FORGET_BEATS = 1_800
_LOOK_AGAIN_MS = 4_000  # Finality takes about 13 s.
_LEASE_MS = 30_000  # Longer than one round with a slow node.
_AT_ONCE = 64
_SIGNATURE_BYTES, _HASH_BYTES = 64, 32  # Of a forged row no more is logged.
_KEEP_MS = 30 * 86_400_000  # Ended payments. A payer's failed and landed payments are counted over this time.
_KEEP_UNSIGNED_MS = 3_600_000  # Any client can cause such rows; their blockhash has expired by then.
_TAKEN_BACK = "the x402 payment did not become final on the chain"


class PaymentRecovery:
    """low_lamports: a sponsor with less is reported as low."""

    def __init__(
        self,
        limits: SettlementLimits,
        settler: Settler,
        store: PaymentStore,
        network: PaymentNetwork,
        accounts: OwnersClient,
        clock: Clock,
        rules: Rules,
        low_lamports: int,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._limits, self._settler, self._store = limits, settler, store
        self._network, self._accounts, self._clock = network, accounts, clock
        self._rules, self._sponsor, self._low_lamports = rules, str(rules.sponsor), low_lamports
        self._sleep = sleep
        self._task: asyncio.Task[None] | None = None
        self.sponsor_lamports: int | None = None  # None: not known yet.

    @property
    def sponsor_low(self) -> bool:
        return self.sponsor_lamports is not None and self.sponsor_lamports < self._low_lamports

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def look_at_balance(self) -> None:
        lamports = await self._network.lamports(self._sponsor)
        if lamports is None:
            return
        was_low = self.sponsor_low
        self.sponsor_lamports = lamports
        if self.sponsor_low and not was_low:
            logger.error(
                "the sponsor %s is low: %d lamports, wanted at least %d; send it SOL, or x402 payments will be refused",
                *(self._sponsor, lamports, self._low_lamports),
            )

    async def carry_on(self) -> int:
        """Take the next step of every payment that is due. Returns how many there were."""
        now_ms = self._clock.now_ms()
        due = await self._store.due(now_ms, now_ms + _LEASE_MS, _AT_ONCE)
        # Before the node is asked: a signature that is none would spoil the answer for all others.
        records = [record for record in due if await self._is_proven(record)]
        signed = [record for record in records if record.signature]
        seen: list[SignatureStatus | None] = []
        told: list[Heights] = []
        if signed:
            found = await self._network.statuses([record.signature for record in signed], history=True)
            if found is None:
                # They are due again when their lease ends. A node without transaction history never answers this.
                logger.warning("the node does not give the status of %d open payments", len(signed))
                return len(due)
            seen = found
        statuses = {record.message_hash: status for record, status in zip(signed, seen, strict=True)}
        unseen = [record for record in signed if statuses[record.message_hash] is None]
        if unseen:
            # A node that does not know a signature proves it for its own blocks only, so each is asked separately.
            again, told = await self._network.search([record.signature for record in unseen])
            statuses |= {record.message_hash: status for record, status in zip(unseen, again, strict=True)}
        for record in records:
            await self._take(record, statuses.get(record.message_hash), most_telling(record, told))
        return len(due)

    async def _is_proven(self, record: Record) -> bool:
        """Close a row that its own transaction does not prove. Nothing of it is sent, credited or taken back."""
        fault = fault_of(record, self._rules)
        if fault is None:
            return True
        logger.error(
            "the stored payment %s (row %s) is not used: %s; it was forged, or made under another key or other rules",
            *(base58_text(record.signature[:_SIGNATURE_BYTES]), record.message_hash[:_HASH_BYTES].hex(), fault),
        )
        await self._keep(replace(record, state=PaymentState.UNPROVEN, reason=fault))
        return False

    async def _take(self, record: Record, status: SignatureStatus | None, heights: Heights | None) -> None:
        step = next_step(record, status, heights, self._limits.wait_for_finalized, self._clock.now_ms())
        if status is not None:
            record = replace(record, fee_lost=has_failed(status))
        name = base58_text(record.signature) or record.message_hash.hex()
        match step:
            case Step.WAIT:
                await self._keep(record)
            case Step.SEND_AGAIN:
                await self._network.send(record.transaction)
                await self._keep(record)
            case Step.CREDIT:
                assert status is not None, record
                await self._settler.landed(record, status)
            case Step.FINISH:
                slot = record.slot if status is None else status.slot
                await self._keep(replace(record, state=PaymentState.FINAL, slot=slot))
            case Step.FAIL:
                reason = "never landed" if status is None else f"landed and failed: {status.error}"
                logger.info("payment %s: %s", name, reason)
                await self._keep(replace(record, state=PaymentState.FAILED, reason=reason, fee_lost=status is not None))
            case Step.TAKE_BACK:
                await self._take_back(record, name)
            case Step.GIVE_UP:
                logger.error("payment %s was credited, and the node can no longer say whether it is final", name)
                await self._keep(
                    replace(record, state=PaymentState.UNPROVEN, reason="the node keeps too little history")
                )
            case Step.ABANDON:
                await self._keep(
                    replace(record, state=PaymentState.ABANDONED, reason="its settler ended before it signed")
                )

    async def _take_back(self, record: Record, name: str) -> None:
        try:
            command = TakeBackDeposit(record.payer, record.signature, TRANSFER_INDEX, _TAKEN_BACK)
            reply = await self._accounts.ask(command)
        except OwnerUnavailable:
            return  # It is due again later.
        if reply.refusal == Err.ACCOUNT_NOT_FOUND.name:
            logger.error("payment %s is not final, and its account was never credited with it", name)
        elif reply.refusal is not None:
            return
        else:
            logger.warning("payment %s did not become final: its credits are taken back", name)
        await self._keep(replace(record, state=PaymentState.TAKEN_BACK, reason=_TAKEN_BACK))

    async def _keep(self, record: Record) -> None:
        await self._store.move(record, self._clock.now_ms() + _LOOK_AGAIN_MS)

    async def _run(self) -> None:
        beats = 0
        while True:
            try:
                await self._settler.refresh_hint()
                if beats % _BALANCE_BEATS == 0:
                    await self.look_at_balance()
                if beats % _FORGET_BEATS == 0:
                    now_ms = self._clock.now_ms()
                    await self._store.forget(now_ms - _KEEP_MS, now_ms - _KEEP_UNSIGNED_MS)
                while await self.carry_on() == _AT_ONCE:
                    pass
            except PaymentsUnavailable as error:
                logger.warning("open payments cannot be followed up at the moment: %s", error)
            except Exception:  # A bug in one round must not end the follow-up of all payments.
                logger.exception("a round over open payments failed")
            beats += 1
            await self._sleep(_BEAT_SECONDS)
