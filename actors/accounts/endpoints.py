"""Parameter checks of commands: what the outside may ask of an account.

Implements: interface, "Account endpoints"; decisions, section 2. Pure.
Not here: JSON, which the gateway and the operator's commands make of replies.
"""

from typing import Any

from actors.accounts.account import ACTIVE, SIGNATURE_BYTES, SUSPENDED
from actors.accounts.api import (
    AdjustCredits,
    AssignDeposit,
    Command,
    CreditDeposit,
    PaidTransfer,
    ReadLedger,
    SetLimits,
    SetStatus,
    TakeBackDeposit,
)
from actors.accounts.core import ADJUSTMENT_MAX
from actors.accounts.deposits import INDEX_MAX

PAGE_MAX = 500
_OFFSET_MAX = 10**9
_REF_CODE_MAX = 64
_REASON_MAX = 200
_OPERATION_MAX = 128
_BASE_UNITS_MAX = 10**17  # More USDC than there is; keeps credits within the database's numbers.


def mistake_in(command: Command[Any]) -> str | None:
    """Return one sentence on what is wrong with the parameters of this command, or None."""
    match command:
        case ReadLedger(_, offset, limit):
            return _page_mistake(offset, limit)
        case AdjustCredits(_, amount, reason, operation):
            return _adjustment_mistake(amount, reason, operation)
        case SetStatus(_, status):
            return None if status in (ACTIVE, SUSPENDED) else f"the status must be {ACTIVE} or {SUSPENDED}"
        case SetLimits(_, requests_per_second, concurrency):
            return _limits_mistake(requests_per_second, concurrency)
        case CreditDeposit(_, transfer):
            return _transfer_mistake(transfer)
        case AssignDeposit(_, transfer, reason):
            return _transfer_mistake(transfer) or _reason_mistake(reason)
        case TakeBackDeposit(_, signature, index, reason):
            return _transfer_mistake(PaidTransfer(signature, index, 1, 0)) or _reason_mistake(reason)
    return None


def usable_ref_code(ref_code: str | None) -> str | None:
    """As it is kept; a code that cannot be one is ignored, as the interface has it for unknown codes."""
    if not ref_code or len(ref_code) > _REF_CODE_MAX or not ref_code.isascii() or not ref_code.isprintable():
        return None
    return ref_code


def _page_mistake(offset: int, limit: int) -> str | None:
    if not 0 <= offset <= _OFFSET_MAX:
        return f"offset must be 0 to {_OFFSET_MAX}"
    return None if 0 <= limit <= PAGE_MAX else f"limit must be 0 to {PAGE_MAX}"


def _adjustment_mistake(amount: int, reason: str, operation: str) -> str | None:
    if not 0 < abs(amount) <= ADJUSTMENT_MAX:
        return f"the amount must be 1 to {ADJUSTMENT_MAX} credits, or as many below zero"
    if len(reason) > _REASON_MAX or not reason.isprintable():
        return f"the reason must be at most {_REASON_MAX} printable characters"
    if not 0 < len(operation) <= _OPERATION_MAX or not operation.isprintable():
        return f"the operation must be 1 to {_OPERATION_MAX} printable characters"
    return None


def _transfer_mistake(transfer: PaidTransfer) -> str | None:
    if len(transfer.signature) != SIGNATURE_BYTES or not 0 <= transfer.index <= INDEX_MAX:
        return "a deposit is named by 64 bytes of signature and the number of a transfer"
    if not 0 < transfer.base_units <= _BASE_UNITS_MAX or transfer.slot < 0:
        return "a deposit has an amount above zero and a slot"
    return None


def _reason_mistake(reason: str) -> str | None:
    if not 0 < len(reason) <= _REASON_MAX or not reason.isprintable():
        return f"the reason must be 1 to {_REASON_MAX} printable characters"
    return None


def _limits_mistake(requests_per_second: int | None, concurrency: int | None) -> str | None:
    if requests_per_second is not None and not 1 <= requests_per_second <= 1_000_000:
        return "requests per second must be 1 to 1000000"
    if concurrency is not None and not 1 <= concurrency <= 100_000:
        return "concurrency must be 1 to 100000"
    return None
