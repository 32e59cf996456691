"""Asks the owners of accounts to credit transfers, many in one message.

Implements: decisions, money rules 2 and 4. The owner decides whether a transfer is new, so a request may be repeated
after any failure: a transfer that was credited already is not credited again. An owner that does not answer, or a
halted account, delays its own transfers only.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from actors.accounts.api import Answer, DepositCredit, OwnerUnavailable
from actors.deposits.core import Finding, FindingStatus, Reason, finding_of
from actors.deposits.transfers import Transfer
from actors.errors import Err
from actors.units import parse_pubkey

_TOO_SMALL = Err.INVALID_REQUEST.name  # The refusal of an amount that is worth less than one credit.


class Accounts(Protocol):
    """The part of accounts.api.AccountsClient that is used here."""

    async def credit_deposits(self, wanted: Sequence[tuple[bytes, DepositCredit]]) -> list[Answer]: ...

    async def assign_deposit(self, pubkey: bytes, credit: DepositCredit, reason: str) -> Answer: ...


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
    def __init__(self, accounts: Accounts) -> None:
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
        asked = [(_authority(each), _named(each)) for each in wanted]
        answers = await self._accounts.credit_deposits(asked)
        return [
            _credited(each, answer) if answer.refusal in (None, _TOO_SMALL) else None
            for each, answer in zip(wanted, answers, strict=True)
        ]

    async def assign(self, finding: Finding, pubkey: bytes, reason: str) -> Finding | str:
        """The finding after the assignment, or one sentence that says why it was refused."""
        asked = DepositCredit(finding.signature, finding.index, finding.amount, finding.slot)
        answer = await self._accounts.assign_deposit(pubkey, asked, reason)
        if answer.refusal == Err.INVALID_REQUEST.name:
            return answer.detail
        body = _body(answer)
        owner = parse_pubkey(body["pubkey"])
        if body["taken_back"] or owner != pubkey:
            return "this transfer was credited before; give credits with `accounts grant` instead"
        return replace(finding, status=FindingStatus.ASSIGNED, pubkey=pubkey, credits=body["credits"])


def _authority(each: Credit) -> bytes:
    pubkey = parse_pubkey(each.transfer.authority)
    assert pubkey is not None, each
    return pubkey


def _named(each: Credit) -> DepositCredit:
    return DepositCredit(each.signature, each.transfer.index, each.transfer.amount, each.slot)


def _credited(each: Credit, answer: Answer) -> CreditedTransfer:
    finding = finding_of(each.transfer, each.signature, each.slot, each.block_time, FindingStatus.CREDITED, Reason.NONE)
    if answer.refusal == _TOO_SMALL:
        return CreditedTransfer(replace(finding, status=FindingStatus.LISTED, reason=Reason.BELOW_ONE_CREDIT), 0, 0)
    body = _body(answer)
    if body["taken_back"]:
        return CreditedTransfer(
            replace(finding, status=FindingStatus.LISTED, reason=Reason.TAKEN_BACK), 0, body["new_balance"]
        )
    owner = parse_pubkey(body["pubkey"])
    status = FindingStatus.CREDITED if owner == _authority(each) else FindingStatus.ASSIGNED
    row = replace(finding, status=status, pubkey=owner, credits=body["credits"])
    return CreditedTransfer(row, body["credits_added"], body["new_balance"])


def _body(answer: Answer) -> dict[str, Any]:
    if answer.refusal is not None or answer.body is None:
        raise OwnerUnavailable(f"{answer.refusal}: {answer.detail}")
    return answer.body
