"""Deposits become credits, failed payments are taken back, referral codes are kept.

Implements: api.AccountsClient `credit_deposit`, `take_back_deposit` and `assign_deposit`, and the operator's commands
on referral codes; decisions, money rule 4 (once per token transfer, however often and by whomever it is reported).
A shell: what is decided is decided in deposits.py and referrals.py. The store is asked first, among all accounts; then
the turn looks at what was decided and is not written yet. Both are needed: the store may be read before a write that
is on its way, and memory forgets.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

from actors.accounts import endpoints
from actors.accounts.account import Account, Moment, Moved
from actors.accounts.activations import Activations
from actors.accounts.api import Answer, DepositCredit, OwnerUnavailable
from actors.accounts.coalesced_lookup import CoalescedLookup
from actors.accounts.commits import GroupCommit
from actors.accounts.deposits import (
    decide_assignment,
    decide_bonus,
    decide_deposit,
    decide_return,
    deposit_operation,
    known_deposit,
    known_return,
)
from actors.accounts.desk import Desk, answering, refused
from actors.accounts.referrals import Referral, referral_error
from actors.accounts.store import AccountStore
from actors.accounts.turns import Turns
from actors.accounts.writes import Credited
from actors.clock import Clock
from actors.config import PaymentsConfig
from actors.errors import Err
from actors.units import base58_text

logger = logging.getLogger(__name__)

_TOO_SMALL = "this amount is worth less than one credit"
Decide = Callable[[Account, Moment], tuple[Moved, ...]]


class Teller:
    def __init__(
        self,
        desk: Desk,
        turns: Turns,
        commits: GroupCommit,
        activations: Activations,
        store: AccountStore,
        clock: Clock,
        payments_config: PaymentsConfig,
    ) -> None:
        self._desk, self._turns, self._commits, self._activations = desk, turns, commits, activations
        self._store, self._clock, self._payments = store, clock, payments_config
        self._finds = CoalescedLookup(store.find_deposits)

    # --- deposits -------------------------------------------------------------------------------------------------

    @answering
    async def credit_deposit(self, pubkey: bytes, credit: DepositCredit) -> Answer:
        mistake = endpoints.credit_error(credit)
        if mistake is not None:
            return refused(Err.INVALID_REQUEST, mistake)
        operation = deposit_operation(credit.signature, credit.index)
        rate = self._payments.credits_per_usdc

        def decide(account: Account, moment: Moment) -> tuple[Moved, ...]:
            return decide_deposit(account, operation, credit.base_units, credit.slot, rate, moment)

        return await self._credit(pubkey, operation, decide)

    async def credit_deposits(self, wanted: Sequence[tuple[bytes, DepositCredit]]) -> list[Answer]:
        """As credit_deposit for each; those of one account in the order given."""
        return list(await asyncio.gather(*(self.credit_deposit(*each) for each in wanted)))

    @answering
    async def assign_deposit(self, pubkey: bytes, credit: DepositCredit, reason: str) -> Answer:
        mistake = endpoints.credit_error(credit) or endpoints.reason_error(reason)
        if mistake is not None:
            return refused(Err.INVALID_REQUEST, mistake)
        operation = deposit_operation(credit.signature, credit.index)
        rate = self._payments.credits_per_usdc

        def decide(account: Account, moment: Moment) -> tuple[Moved, ...]:
            return decide_assignment(account, operation, credit.base_units, credit.slot, rate, reason, moment)

        return await self._credit(pubkey, operation, decide)

    async def _credit(self, pubkey: bytes, operation: bytes, decide: Decide) -> Answer:
        epoch = self._commits.epoch
        credited = await self._finds.find(operation)
        if credited is not None:
            return await self._credited_before(pubkey, credited)
        account = await self._activations.load(pubkey)
        if account is None:
            account = self._desk.open_account(pubkey, None)
        if self._commits.epoch != epoch:
            raise OwnerUnavailable("the ledger did not commit")  # What was read may have been overtaken.
        self._desk.check_current(account)
        if known_deposit(account, operation):
            await self._desk.until_written(account)
            credited = await self._finds.find(operation)
            assert credited is not None, operation.hex()
            return await self._credited_before(pubkey, credited)
        # The turn: nothing is awaited until everything is decided.
        moment = self._turns.moment()
        self._turns.take_due(account, moment)
        events = decide(account, moment)
        if not events:
            return refused(Err.INVALID_REQUEST, _TOO_SMALL)
        written = [self._turns.take(account, event) for event in events]
        deposit = events[0].deposit
        assert deposit is not None, events
        written += [self._turns.take(account, event) for event in decide_bonus(account, deposit, moment)]
        added = deposit.credits + deposit.bonus
        answer = self._desk.answer(account, endpoints.credit_body(pubkey, added, account.purse.balance, False))
        await asyncio.shield(written[-1])
        return answer

    async def _credited_before(self, pubkey: bytes, credited: Credited) -> Answer:
        """credited.pubkey is another account only when an operator assigned the transfer; that may be another owner's,
        whose balance is not told."""
        account = await self._activations.load(pubkey) if credited.pubkey == pubkey else None
        balance = 0 if account is None else account.purse.balance
        body = endpoints.credit_body(credited.pubkey, credited.credits, balance, True, credited.returned)
        return Answer(body=body) if account is None else self._desk.answer(account, body)

    @answering
    async def take_back_deposit(self, pubkey: bytes, signature: bytes, index: int, reason: str) -> Answer:
        mistake = endpoints.credit_error(DepositCredit(signature, index, 1, 0)) or endpoints.reason_error(reason)
        if mistake is not None:
            return refused(Err.INVALID_REQUEST, mistake)
        operation = deposit_operation(signature, index)
        account = await self._activations.load(pubkey)
        if account is None:
            return refused(Err.ACCOUNT_NOT_FOUND)
        await self._desk.until_written(account)  # The store is asked below, and it may be this very deposit.
        epoch = self._commits.epoch
        credited = await self._finds.find(operation)
        account = await self._activations.load(pubkey)
        if account is None or self._commits.epoch != epoch:
            raise OwnerUnavailable("the ledger did not commit")
        if credited is None or credited.pubkey != pubkey:
            return refused(Err.ACCOUNT_NOT_FOUND, "this account was not credited with that transfer")
        if credited.returned:
            body = endpoints.return_body(
                pubkey, credited.taken, credited.uncollected, account.purse.balance, already_processed=True
            )
            return self._desk.answer(account, body)
        self._desk.check_current(account)
        if known_return(account, operation):
            raise OwnerUnavailable("this deposit is being taken back")
        moment = self._turns.moment()
        self._turns.take_due(account, moment)
        event = decide_return(account, operation, credited.credits, reason, moment)
        written = self._turns.take(account, event)
        assert event.returned is not None, event
        taken, uncollected = event.returned.taken, event.returned.uncollected
        body = endpoints.return_body(pubkey, taken, uncollected, account.purse.balance, already_processed=False)
        answer = self._desk.answer(account, body)
        await asyncio.shield(written)
        logger.warning("a payment of account %s was taken back: %s", base58_text(pubkey), reason)
        return answer

    # --- referral codes -------------------------------------------------------------------------------------------

    @answering
    async def create_referral(self, code: str, bonus_bps: int, expires_at: int | None, note: str) -> Answer:
        now = self._clock.now()
        referral = Referral(code, bonus_bps, now, expires_at, note)
        mistake = referral_error(referral, now)
        if mistake is None and not await self._store.add_referral(referral):
            mistake = "there is a code of this name already; codes never change"
        return refused(Err.INVALID_REQUEST, mistake) if mistake else Answer(body=endpoints.referral_body(referral, 0))

    @answering
    async def expire_referral(self, code: str) -> Answer:
        """No new account can link it; accounts that have it keep their bonus."""
        referral = await self._store.expire_referral(code, self._clock.now())
        if referral is None:
            return refused(Err.INVALID_REQUEST, "there is no code of this name")
        return Answer(body=endpoints.referral_body(referral, None))

    @answering
    async def list_referrals(self) -> Answer:
        rows: list[dict[str, Any]] = [endpoints.referral_body(*row) for row in await self._store.referrals()]
        return Answer(body={"ok": True, "referrals": rows})
