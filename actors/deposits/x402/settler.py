"""Settles one x402 payment while its payer waits: check, claim, simulate, co-sign, send, wait, credit.

Implements: actors/x402_types.py, PaymentSettler; interface, "Payment settlement"; decisions, "Two ways to pay by x402";
threats 24, 25 and 52. The shell: it awaits and stores. x402/rules.py decides which transactions are payments,
x402/sponsor_limits.py which fees the sponsor pays, and x402/states.py the next step of a claimed payment.

The order matters. The claim is in the database before any node sees the payment and before the sponsor signs it, so one
process simulates and signs it, once, whatever restarts. A payment that fails its simulation stays claimed, and its
payer makes a new one. The whole transaction is in the database before it is sent, so its result can be found after a
restart. After the claim a payment no longer depends on its caller, who may leave.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from solders.signature import Signature

from actors.accounts.api import CreditDeposit, DepositReceipt, OwnersClient, OwnerUnavailable, PaidTransfer
from actors.clock import Clock
from actors.deposits.usdc.transfers import transfer_index
from actors.deposits.x402.network import PaymentNetwork, Sent, Trial, Tried
from actors.deposits.x402.rules import Payment, Rules, Unfit, check_relayed, check_standard
from actors.deposits.x402.sponsor_key import Sponsor
from actors.deposits.x402.sponsor_limits import Budgets, Standing, Unsponsored, refusal, telling_address
from actors.deposits.x402.states import (
    BLOCKHASH_BLOCKS,
    PaymentKind,
    PaymentState,
    Record,
    has_failed,
    has_landed,
)
from actors.deposits.x402.store import PaymentStore, PaymentsUnavailable
from actors.errors import Err
from actors.units import base58_text
from actors.upstream.signature_status import SignatureStatus
from actors.x402_types import BlockhashHint, Lack, NotSettled, Settled

logger = logging.getLogger(__name__)

HINT_SECONDS = 5.0  # An older blockhash is not offered: it expires about a minute after it was made.
TRANSFER_INDEX = transfer_index(2)  # A payment that is credited here is the third instruction (x402/rules.py).
_UNDER_WAY_MAX = 256
_POLL_SECONDS = 0.2
_GRACE_MS = 5_000  # The follow-up starts so long after the wait, when the settler has certainly finished.
_MINUTE_MS, _HOUR_MS = 60_000, 3_600_000
_BLOCKHASH_TRIES, _BLOCKHASH_SECONDS = 2, 0.4  # A slot's length.


@dataclass(frozen=True, slots=True)
class SettlementLimits:
    wait_ms: int  # For the commitment; the payer's patience is 5 s in one official client.
    budgets: Budgets
    wait_for_finalized: bool


class Settler:
    """Belongs to one event loop. sponsor None: only self-paid transactions are relayed."""

    def __init__(
        self,
        rules: Rules,
        limits: SettlementLimits,
        sponsor: Sponsor | None,
        store: PaymentStore,
        network: PaymentNetwork,
        accounts: OwnersClient,
        clock: Clock,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        assert rules.sponsor == (None if sponsor is None else sponsor.pubkey), "one key, named in the rules"
        self._rules, self._limits, self._sponsor = rules, limits, sponsor
        self._store, self._network, self._accounts, self._clock = store, network, accounts, clock
        self._sleep = sleep
        self._under_way: dict[tuple[PaymentKind, bytes], asyncio.Task[Settled | NotSettled]] = {}
        self._hint: BlockhashHint | None = None
        self._hint_at = 0.0
        self._budget_spent = False  # Budget of all newcomers, as last logged.

    # --- what doors ask

    def hint(self) -> BlockhashHint | None:
        fresh = self._hint is not None and self._clock.monotonic() - self._hint_at <= HINT_SECONDS
        return self._hint if fresh else None

    async def refresh_hint(self) -> None:
        found = await self._network.latest_blockhash()
        if found is not None:
            self._hint, self._hint_at = found, self._clock.monotonic()

    async def pay(self, transaction: bytes, least_base_units: int, address: str) -> Settled | NotSettled:
        if self._sponsor is None:
            return NotSettled(Lack.NOT_CONFIGURED, "settlement_not_configured", "this service settles no payments")
        return await self._settle(
            check_standard(transaction, self._rules, least_base_units), PaymentKind.STANDARD, address
        )

    async def relay(self, transaction: bytes, address: str) -> Settled | NotSettled:
        if self._sponsor is None:
            return NotSettled(Lack.NOT_CONFIGURED, "settlement_not_configured", "this service settles no payments")
        found = check_relayed(transaction, self._rules)
        sponsored = isinstance(found, Payment) and found.sponsored
        return await self._settle(found, PaymentKind.SPONSORED if sponsored else PaymentKind.SELF_PAID, address)

    async def drain(self) -> None:
        """Wait until every payment under way has its answer."""
        while self._under_way:
            await asyncio.wait(list(self._under_way.values()))

    # --- one payment

    async def _settle(self, payment: Payment | Unfit, kind: PaymentKind, address: str) -> Settled | NotSettled:
        if isinstance(payment, Unfit):
            return NotSettled(Lack.INVALID, payment.reason, payment.message)
        key = kind, payment.message_hash
        if key in self._under_way:
            if kind is not PaymentKind.STANDARD:  # It buys nothing, so its answer can be repeated.
                return await asyncio.shield(self._under_way[key])
            return await self._being_settled(payment)
        if len(self._under_way) >= _UNDER_WAY_MAX:
            return _unavailable("too many payments are being settled at the moment")
        task = asyncio.create_task(self._carry_out(payment, kind, telling_address(address)))
        self._under_way[key] = task
        task.add_done_callback(lambda _: self._under_way.pop(key, None))
        return await asyncio.shield(task)  # The payment continues when the payer leaves.

    async def _being_settled(self, payment: Payment) -> NotSettled:
        """Return the answer to a second request for a payment under way, with its signature where it has one."""
        try:
            record = await self._store.find(payment.message_hash)
        except PaymentsUnavailable:
            record = None
        signature = "" if record is None else base58_text(record.signature)
        return _duplicate(signature, str(payment.payer), "this payment is being settled right now", may_land=True)

    async def _carry_out(self, payment: Payment, kind: PaymentKind, address: str) -> Settled | NotSettled:
        give_up_at = self._clock.monotonic() + self._limits.wait_ms / 1000
        try:
            record = await self._claim(payment, kind, address)
        except PaymentsUnavailable as error:
            logger.warning("a payment was not tried: %s", error)
            return _unavailable("the payment cannot be recorded at the moment")
        if not isinstance(record, Record):
            return record
        refused = self._judge_trial(await self._try(bytes(payment.transaction)), payment, kind)
        if refused is not None:
            await self._move_quietly(replace(record, state=PaymentState.ABANDONED, reason=refused.reason))
            return refused
        record = self._signed(record, payment)
        try:
            kept = await self._store.move(record, self._look_at_ms())
        except PaymentsUnavailable as error:
            # It may have been stored, and then the follow-up sends it.
            logger.error("payment %s may be sent later: %s", base58_text(record.signature), error)
            return _pending(record)
        if not kept:
            return _unavailable("recording the payment took too long; it was not sent, make a new one")
        return await self._send_and_see(record, give_up_at)

    async def _try(self, transaction: bytes) -> Tried:
        """Simulate; again after a while where the blockhash is unknown: the payer's node may be a few slots ahead."""
        tried = await self._network.simulate(transaction)
        for _ in range(_BLOCKHASH_TRIES):
            if tried.trial is not Trial.NO_BLOCKHASH:
                break
            await self._sleep(_BLOCKHASH_SECONDS)
            tried = await self._network.simulate(transaction)
        return tried

    def _judge_trial(self, tried: Tried, payment: Payment, kind: PaymentKind) -> NotSettled | None:
        payer = str(payment.payer)
        match tried.trial:
            case Trial.GOOD:
                return None
            case Trial.NO_ANSWER:
                return _unavailable("the node does not answer at the moment; nothing was signed or sent")
            case Trial.ALREADY_LANDED:
                if kind is PaymentKind.SELF_PAID:
                    return None  # Its payer sent it too; its status is looked up.
                return _duplicate("", payer, "this payment has landed before")
            case Trial.NO_FEE_MONEY if payment.sponsored:
                logger.error("the sponsor %s cannot pay network fees: send it SOL", self._rules.sponsor)
                return _unavailable("the service cannot pay network fees at the moment; nothing was signed or sent")
            case Trial.NO_FUNDS:
                return NotSettled(
                    Lack.REJECTED, "insufficient_funds", "the payer's token account holds too little", payer=payer
                )
        message = f"the network would refuse this transaction: {tried.error}; nothing was signed or sent"
        return NotSettled(Lack.REJECTED, "transaction_simulation_failed", message, payer=payer)

    async def _claim(self, payment: Payment, kind: PaymentKind, address: str) -> Record | Settled | NotSettled:
        """Claim the payment for this process. No node sees it before."""
        earlier = await self._store.find(payment.message_hash)
        if earlier is not None:
            return _taken_before(earlier, kind)
        newcomer = False
        if payment.sponsored:
            standing = await self._standing(payment, address)
            newcomer = standing.is_newcomer
            refused = self._refused_sponsorship(standing, payment, claimed=False)
            if refused is not None:
                return refused
        hint = self.hint() or await self._network.latest_blockhash()
        if hint is None:
            return _unavailable("the node does not answer at the moment; nothing was signed or sent")
        record = Record(
            payment.message_hash,
            kind,
            PaymentState.CLAIMED,
            bytes(payment.payer),
            payment.amount_base_units,
            bytes(payment.transaction),
            b"",
            hint.last_valid_block_height + BLOCKHASH_BLOCKS,
            self._clock.now_ms(),
            source=bytes(payment.source),
            newcomer=newcomer,
            brought_by=address if newcomer else "",
        )
        if not await self._store.claim(record, self._look_at_ms()):
            earlier = await self._store.find(payment.message_hash)
            return _one_at_a_time(payment) if earlier is None else _taken_before(earlier, kind)
        if payment.sponsored:
            # Count again with this one included: payments that came at the same time did not see each other.
            refused = self._refused_sponsorship(await self._standing(payment, address), payment, claimed=True)
            if refused is not None:
                await self._move_quietly(replace(record, state=PaymentState.ABANDONED, reason=refused.reason))
                return refused
        return record

    async def _standing(self, payment: Payment, address: str) -> Standing:
        now_ms = self._clock.now_ms()
        payer, source = bytes(payment.payer), bytes(payment.source)
        return await self._store.standing(payer, source, address, now_ms - _MINUTE_MS, now_ms - _HOUR_MS)

    def _refused_sponsorship(self, standing: Standing, payment: Payment, claimed: bool) -> NotSettled | None:
        why = refusal(standing, self._limits.budgets, claimed)
        self._tell_of_budget(standing)
        return None if why is None else _not_sponsored(why, payment)

    def _tell_of_budget(self, standing: Standing) -> None:
        """Log when the budget of all newcomers is spent, and when it no longer is."""
        spent = standing.newcomers >= self._limits.budgets.failures_per_hour
        if spent and not self._budget_spent:
            logger.error(
                "co-signing stops for wallets that never paid before: %d of their payments landed and failed within "
                "an hour",
                standing.newcomers,
            )
        elif self._budget_spent and not spent:
            logger.warning("co-signing continues for wallets that never paid before")
        self._budget_spent = spent

    def _signed(self, record: Record, payment: Payment) -> Record:
        """Sign as the sponsor, only here. The record is claimed, so no other process signs it."""
        whole = payment.transaction
        if payment.sponsored:
            assert self._sponsor is not None, "a sponsored payment without a sponsor"
            whole = payment.signed_by_sponsor(self._sponsor.sign(payment.message))
        assert whole.signatures[0] != Signature.default(), "unsigned"
        return replace(record, state=PaymentState.SENT, transaction=bytes(whole), signature=bytes(whole.signatures[0]))

    async def _send_and_see(self, record: Record, give_up_at: float) -> Settled | NotSettled:
        sent = await self._network.send(record.transaction)
        if sent is Sent.REFUSED:
            await self._move_quietly(replace(record, state=PaymentState.FAILED, reason="the node refused it"))
            return _rejected(record, "the network refused the transaction")
        while True:
            seen = await self._network.statuses([record.signature], history=False)
            status = seen[0] if seen else None
            if status is not None and has_failed(status):
                await self._move_quietly(replace(record, slot=status.slot, fee_lost=True))  # Open until it is final.
                return _rejected(record, f"the transaction landed and failed: {status.error}")
            if status is not None and has_landed(status, self._limits.wait_for_finalized):
                return await self.landed(record, status)
            if self._clock.monotonic() + _POLL_SECONDS > give_up_at:
                logger.warning(
                    "payment %s is pending: the network has not confirmed it yet", base58_text(record.signature)
                )
                return _pending(record)
            await self._sleep(_POLL_SECONDS)

    async def landed(self, record: Record, status: SignatureStatus) -> Settled | NotSettled:
        """Credit a payment of the standard path. Repeating it changes nothing: a transfer is credited once.

        The record was made here, or x402/proof.py has checked it."""
        record = replace(record, slot=status.slot, fee_lost=False)  # It may have failed in a fork that is gone.
        settled = _settled(record)
        if record.kind is not PaymentKind.STANDARD:
            await self._move_quietly(replace(record, state=PaymentState.FINAL))
            return settled
        transfer = PaidTransfer(record.signature, TRANSFER_INDEX, record.amount_base_units, status.slot)
        try:
            reply = await self._accounts.ask(CreditDeposit(record.payer, transfer))
        except OwnerUnavailable:
            return _pending(record)
        if reply.refusal == Err.INVALID_REQUEST.name:  # Worth less than one credit at the operator's rate.
            await self._move_quietly(replace(record, state=PaymentState.FINAL, reason=reply.detail))
            return settled
        receipt = reply.value
        if receipt is None:
            return _pending(record)
        await self._move_quietly(replace(record, state=PaymentState.CREDITED))
        logger.info("payment %s of %d base units is credited", settled.signature, settled.amount_base_units)
        worth = _worth(receipt, record)
        return replace(settled, credits_added=receipt.credits_added, balance=receipt.new_balance, worth=worth)

    async def _move_quietly(self, record: Record) -> None:
        """Store the record. If that fails, the follow-up repeats the step."""
        try:
            await self._store.move(record, self._look_at_ms())
        except PaymentsUnavailable as error:
            logger.warning(
                "payment %s could not be stored as %s: %s", base58_text(record.signature), record.state.name, error
            )

    def _look_at_ms(self) -> int:
        return self._clock.now_ms() + self._limits.wait_ms + _GRACE_MS


def _worth(receipt: DepositReceipt, record: Record) -> int:
    """Return the credits that the payment brought: 0 where it was taken back or assigned to another account."""
    return receipt.credits if receipt.pubkey == record.payer and not receipt.taken_back else 0


def _settled(record: Record) -> Settled:
    signature, payer = base58_text(record.signature), base58_text(record.payer)
    return Settled(signature, payer, record.payer, record.amount_base_units)


def _duplicate(signature: str, payer: str, message: str, may_land: bool = False) -> NotSettled:
    return NotSettled(Lack.DUPLICATE, "duplicate_settlement", message, signature, payer, may_land)


def _taken_before(record: Record, kind: PaymentKind) -> Settled | NotSettled:
    """Return the answer for a payment that has a record. A relayed one buys nothing, so its answer can be repeated."""
    if record.kind is kind is not PaymentKind.STANDARD and record.state in (PaymentState.SENT, PaymentState.FINAL):
        return _settled(record) if record.state is PaymentState.FINAL else _pending(record)
    ends = {
        PaymentState.FAILED: "this payment was taken before and failed; make a new one",
        PaymentState.ABANDONED: "this payment was taken before and never sent; make a new one",
    }
    message = ends.get(record.state, "this payment was taken before; it is not settled twice")
    may_land = record.state in (PaymentState.CLAIMED, PaymentState.SENT)
    return _duplicate(base58_text(record.signature), base58_text(record.payer), message, may_land)


def _pending(record: Record) -> NotSettled:
    message = (
        "the payment was sent and the network has not confirmed it yet; do not pay again: it is credited when it "
        "lands, and POST /account/confirm-deposit with its signature tells"
    )
    return NotSettled(
        Lack.PENDING,
        "settlement_pending",
        message,
        base58_text(record.signature),
        base58_text(record.payer),
        may_land=True,
    )


def _rejected(record: Record, message: str) -> NotSettled:
    return NotSettled(
        Lack.REJECTED, "settlement_failed", message, base58_text(record.signature), base58_text(record.payer)
    )


def _one_at_a_time(payment: Payment) -> NotSettled:
    message = (
        "another payment of this wallet, or from this token account, has not landed yet; nothing was signed or sent; "
        "try again when it has"
    )
    return NotSettled(Lack.TOO_MANY, "rate_limited", message, payer=str(payment.payer))


def _not_sponsored(why: Unsponsored, payment: Payment) -> NotSettled:
    payer = str(payment.payer)
    if why is Unsponsored.TOO_MANY_ATTEMPTS:
        return NotSettled(Lack.TOO_MANY, "rate_limited", "too many payments of this wallet in one minute", payer=payer)
    reasons = {
        Unsponsored.FAILED_TOO_OFTEN: "earlier payments of this wallet or its token account failed on the chain",
        Unsponsored.ADDRESS_SPENT: "payments of new wallets from this address failed on the chain or are under way",
        Unsponsored.BUDGET_SPENT: "too many payments of new wallets failed on the chain within an hour",
    }
    message = (
        f"the service pays no network fees for this wallet now: {reasons[why]}; nothing was signed or sent; "
        "POST /x402/settle takes a transaction that pays its own fee"
    )
    if why is Unsponsored.BUDGET_SPENT:
        return _unavailable(message)
    lack = Lack.NOT_SPONSORED if why is Unsponsored.FAILED_TOO_OFTEN else Lack.TOO_MANY
    return NotSettled(lack, "sponsorship_refused", message, payer=payer)


def _unavailable(message: str) -> NotSettled:
    return NotSettled(Lack.UNAVAILABLE, "settlement_unavailable", message)
