"""Asks the owners of accounts to credit transfers, many in one message.

Implements: money rules 2 and 4. The owner decides whether a transfer is new, so a request may be repeated
after any failure: a transfer that was credited already is not credited again. An owner that does not answer, or a
halted account, delays its own transfers only.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

from actors.accounts.api import (
    AssignDeposit,
    CreditDeposit,
    DepositReceipt,
    OwnerReply,
    OwnersClient,
    OwnerUnavailable,
    PaidTransfer,
)
from actors.deposits.usdc.core import Finding, FindingStatus, Reason, finding_of
from actors.deposits.usdc.transfers import Transfer
from actors.errors import Err
from actors.units import base58_text, parse_pubkey, usdc_text

logger = logging.getLogger(__name__)

_TOO_SMALL = Err.INVALID_REQUEST.name  # The refusal of an amount that is worth less than one credit.


@dataclass(frozen=True, slots=True)
class Credit:
    """A transfer that earns credits."""

    signature: bytes
    transfer: Transfer
    slot: int
    block_time: int | None


@dataclass(frozen=True, slots=True)
class CreditedTransfer:
    finding: Finding
    added: int  # By this request; 0 when it was credited before.
    balance: int  # Of the account that has the credits.


class Crediting:
    def __init__(self, accounts: OwnersClient) -> None:
        self._accounts = accounts

    async def credit(self, wanted: Sequence[Credit]) -> list[CreditedTransfer]:
        """Credit all, in this order. Raises OwnerUnavailable when one of them was not answered."""
        credited = await self.credit_each(wanted)
        done = [row for row in credited if row is not None]
        if len(done) < len(credited):
            raise OwnerUnavailable("an account cannot be credited at the moment")
        return done

    async def credit_each(self, wanted: Sequence[Credit]) -> list[CreditedTransfer | None]:
        """Credit each account's transfers in this order. None in place of a result: not answered, ask again."""
        if not wanted:
            return []
        replies = await self._accounts.ask_many([_command(each) for each in wanted])
        credited = [
            _credited(each, reply) if reply.refusal in (None, _TOO_SMALL) else None
            for each, reply in zip(wanted, replies, strict=True)
        ]
        for row in credited:
            if row is not None and row.added:
                _log_credited(row.finding)
        return credited

    async def assign(self, finding: Finding, pubkey: bytes, reason: str) -> Finding | str:
        """Return the finding after the assignment, or one sentence that says why it was refused."""
        transfer = PaidTransfer(finding.signature, finding.index, finding.amount, finding.slot)
        reply = await self._accounts.ask(AssignDeposit(pubkey, transfer, reason))
        if reply.refusal == Err.INVALID_REQUEST.name:
            return reply.detail
        receipt = _receipt(reply)
        if receipt.taken_back or receipt.pubkey != pubkey:
            return "this transfer was credited before; give credits with `accounts grant` instead"
        return replace(finding, status=FindingStatus.ASSIGNED, pubkey=pubkey, credits=receipt.credits)


def _log_credited(finding: Finding) -> None:
    """Log one line for a transfer that became credits now."""
    assert finding.pubkey is not None, finding
    logger.info(
        "deposit of %s USDC: %d credits for account %s, slot %d, signature %s",
        usdc_text(finding.amount),
        finding.credits,
        base58_text(finding.pubkey),
        finding.slot,
        base58_text(finding.signature),
    )


def _authority(each: Credit) -> bytes:
    pubkey = parse_pubkey(each.transfer.authority)
    assert pubkey is not None, each
    return pubkey


def _command(each: Credit) -> CreditDeposit:
    transfer = PaidTransfer(each.signature, each.transfer.index, each.transfer.amount, each.slot)
    return CreditDeposit(_authority(each), transfer)


def _credited(each: Credit, reply: OwnerReply[DepositReceipt]) -> CreditedTransfer:
    finding = finding_of(each.transfer, each.signature, each.slot, each.block_time, FindingStatus.CREDITED, Reason.NONE)
    if reply.refusal == _TOO_SMALL:
        return CreditedTransfer(replace(finding, status=FindingStatus.LISTED, reason=Reason.BELOW_ONE_CREDIT), 0, 0)
    receipt = _receipt(reply)
    if receipt.taken_back:
        finding = replace(finding, status=FindingStatus.LISTED, reason=Reason.TAKEN_BACK)
        return CreditedTransfer(finding, 0, receipt.new_balance)
    status = FindingStatus.CREDITED if receipt.pubkey == _authority(each) else FindingStatus.ASSIGNED
    row = replace(finding, status=status, pubkey=receipt.pubkey, credits=receipt.credits)
    return CreditedTransfer(row, receipt.credits_added, receipt.new_balance)


def _receipt(reply: OwnerReply[DepositReceipt]) -> DepositReceipt:
    if reply.value is None:
        raise OwnerUnavailable(f"{reply.refusal}: {reply.detail}")
    return reply.value
