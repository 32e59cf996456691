"""Carries the commands on deposits out: transfers become credits, failed payments are taken back.

Implements: api.CreditDeposit, AssignDeposit and TakeBackDeposit; money rule 4 (once per token transfer,
however often and by whomever it is reported).
A shell: deposits.py decides. The store is asked first, among all accounts; then the account in memory is asked for
decisions that are not written yet. Both are needed: a running write may complete after the store was read, and memory
forgets.
"""

import asyncio
import logging

from actors.accounts.activations import Activations
from actors.accounts.api import (
    AssignDeposit,
    CreditDeposit,
    DepositReceipt,
    OwnerReply,
    OwnerUnavailable,
    TakeBackDeposit,
    refused,
)
from actors.accounts.coalesced_lookup import CoalescedLookup
from actors.accounts.commits import GroupCommit
from actors.accounts.deposits import (
    decide_bonus,
    decide_deposit,
    decide_return,
    deposit_operation,
    known_deposit,
    known_return,
)
from actors.accounts.store import AccountStore
from actors.accounts.stored import Credited
from actors.errors import Err
from actors.units import base58_text

logger = logging.getLogger(__name__)

_TOO_SMALL = "this amount is worth less than one credit"


class DepositCommands:
    def __init__(
        self, activations: Activations, commits: GroupCommit, store: AccountStore, credits_per_usdc: int
    ) -> None:
        self._activations, self._commits, self._rate = activations, commits, credits_per_usdc
        self._credited = CoalescedLookup(store.find_deposits)

    async def credit(self, command: CreditDeposit | AssignDeposit) -> OwnerReply[DepositReceipt]:
        """Credit a transfer once, opening the account where there is none."""
        pubkey, generation = command.pubkey, self._commits.generation
        operation = deposit_operation(command.transfer.signature, command.transfer.index)
        credited = await self._credited.find(operation)
        if credited is not None:
            return await self._credited_before(pubkey, credited)
        account = await self._activations.load(pubkey) or self._activations.open_account(pubkey)
        if self._commits.generation != generation:
            raise OwnerUnavailable("the ledger did not commit")  # A write may have completed since the store was read.
        self._activations.check_current(account)
        if known_deposit(account, operation):
            await self._activations.until_written(pubkey)
            credited = await self._credited.find(operation)
            assert credited is not None, operation.hex()
            return await self._credited_before(pubkey, credited)
        # The turn: nothing is awaited until everything is decided.
        moment = self._activations.moment()
        self._activations.end_due(account, moment)
        transfer, assigned = command.transfer, command.reason if isinstance(command, AssignDeposit) else None
        event = decide_deposit(account, operation, transfer.base_units, transfer.slot, self._rate, moment, assigned)
        if event is None:
            return refused(Err.INVALID_REQUEST, _TOO_SMALL)
        written = self._activations.record(account, event)
        deposit = event.deposit
        assert deposit is not None, event
        bonus = decide_bonus(account, deposit, moment)
        if bonus is not None:
            written = self._activations.record(account, bonus)
        receipt = DepositReceipt(pubkey, deposit.credits + deposit.bonus, account.purse.balance, False)
        await asyncio.shield(written)
        return OwnerReply(receipt)

    async def _credited_before(self, pubkey: bytes, credited: Credited) -> OwnerReply[DepositReceipt]:
        """Reply that the transfer was credited before.

        credited.pubkey is another account only when an operator assigned the transfer. That account may have another
        owner, so its balance is not told."""
        account = await self._activations.load(pubkey) if credited.pubkey == pubkey else None
        balance = 0 if account is None else account.purse.balance
        return OwnerReply(DepositReceipt(credited.pubkey, credited.credits, balance, True, credited.returned))

    async def take_back(self, command: TakeBackDeposit) -> OwnerReply[int]:
        pubkey, operation = command.pubkey, deposit_operation(command.signature, command.index)
        account = await self._activations.load(pubkey)
        if account is None:
            return refused(Err.ACCOUNT_NOT_FOUND)
        # The store is read below, and the earlier deposit may be this one.
        await self._activations.until_written(pubkey)
        generation = self._commits.generation
        credited = await self._credited.find(operation)
        account = await self._activations.load(pubkey)
        if account is None or self._commits.generation != generation:
            raise OwnerUnavailable("the ledger did not commit")
        if credited is None or credited.pubkey != pubkey:
            return refused(Err.ACCOUNT_NOT_FOUND, "this account was not credited with that transfer")
        if credited.returned:
            return OwnerReply(credited.taken)
        self._activations.check_current(account)
        if known_return(account, operation):
            raise OwnerUnavailable("this deposit is being taken back")
        moment = self._activations.moment()
        self._activations.end_due(account, moment)
        event = decide_return(account, operation, credited.credits, command.reason, moment)
        written = self._activations.record(account, event)
        assert event.returned is not None, event
        await asyncio.shield(written)
        logger.warning("a payment of account %s was taken back: %s", base58_text(pubkey), command.reason)
        return OwnerReply(event.returned.taken)
