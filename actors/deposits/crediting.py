"""Has transfers credited by the owners of their accounts, many at once and each account's in order.

Implements: decisions, money rules 2 and 4. The owner decides whether a transfer is new; here it is only asked, and
asked again after any failure. Raises OwnerUnavailable when one of them does not answer: what was credited until then is
found as processed the next time.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from actors.accounts.api import Answer, DepositCredit, OwnerUnavailable
from actors.deposits.core import Finding, Reason, Status, finding_of
from actors.deposits.transfers import Transfer
from actors.errors import Err
from actors.units import parse_pubkey

ACCOUNTS_IN_FLIGHT_MAX = 64


class Accounts(Protocol):
    """What of accounts.api.AccountsClient is needed."""

    async def credit_deposit(self, pubkey: bytes, credit: DepositCredit) -> Answer: ...

    async def assign_deposit(self, pubkey: bytes, credit: DepositCredit, reason: str) -> Answer: ...


@dataclass(frozen=True, slots=True)
class Credit:
    """A transfer that earns credits."""

    signature: bytes
    transfer: Transfer
    slot: int
    block_time: int | None


@dataclass(frozen=True, slots=True)
class Credited:
    finding: Finding
    added: int  # By this asking; 0 when it was credited before.
    balance: int  # Of the account that has it.


class Crediting:
    def __init__(self, accounts: Accounts) -> None:
        self._accounts = accounts
        self._places = asyncio.Semaphore(ACCOUNTS_IN_FLIGHT_MAX)

    async def credit(self, wanted: Sequence[Credit]) -> list[Credited]:
        """In the order asked for. All are tried before the first failure is raised."""
        rows: list[Credited | None] = [None] * len(wanted)
        by_authority: dict[str, list[int]] = {}
        for number, each in enumerate(wanted):
            by_authority.setdefault(each.transfer.authority, []).append(number)

        async def in_order(numbers: list[int]) -> None:
            async with self._places:
                for number in numbers:
                    rows[number] = await self._credit(wanted[number])

        ended = await asyncio.gather(*(in_order(numbers) for numbers in by_authority.values()), return_exceptions=True)
        for error in ended:
            if isinstance(error, BaseException):
                raise error
        return [row for row in rows if row is not None]

    async def _credit(self, each: Credit) -> Credited:
        transfer = each.transfer
        pubkey = parse_pubkey(transfer.authority)
        assert pubkey is not None, transfer
        asked = DepositCredit(each.signature, transfer.index, transfer.amount, each.slot)
        answer = await self._accounts.credit_deposit(pubkey, asked)
        finding = finding_of(transfer, each.signature, each.slot, each.block_time, Status.CREDITED, Reason.NONE)
        if answer.refusal == Err.INVALID_REQUEST.name:
            return Credited(replace(finding, status=Status.LISTED, reason=Reason.BELOW_ONE_CREDIT), 0, 0)
        body = _body(answer)
        if body["taken_back"]:
            return Credited(replace(finding, status=Status.LISTED, reason=Reason.TAKEN_BACK), 0, body["new_balance"])
        owner = parse_pubkey(body["pubkey"])
        status = Status.CREDITED if owner == pubkey else Status.ASSIGNED
        row = replace(finding, status=status, pubkey=owner, credits=body["credits"])
        return Credited(row, body["credits_added"], body["new_balance"])

    async def assign(self, finding: Finding, pubkey: bytes, reason: str) -> Finding | str:
        """The finding as assigned, or one sentence why not."""
        asked = DepositCredit(finding.signature, finding.index, finding.amount, finding.slot)
        answer = await self._accounts.assign_deposit(pubkey, asked, reason)
        if answer.refusal == Err.INVALID_REQUEST.name:
            return answer.detail
        body = _body(answer)
        owner = parse_pubkey(body["pubkey"])
        if body["taken_back"] or owner != pubkey:
            return "this transfer was credited before; give credits with `accounts grant` instead"
        return replace(finding, status=Status.ASSIGNED, pubkey=pubkey, credits=body["credits"])


def _body(answer: Answer) -> dict[str, Any]:
    if answer.refusal is not None or answer.body is None:
        raise OwnerUnavailable(f"{answer.refusal}: {answer.detail}")
    return answer.body
