"""Checks the parameters of commands to an account.

Implements: interface, "Account endpoints"; decisions, "offset and limit of listings". Pure.
Not here: JSON, which the gateway and the operator's commands make of replies.
"""

from typing import Any

from actors.accounts.account import ACTIVE, SIGNATURE_BYTES, SUSPENDED
from actors.accounts.api import (
    AdjustCredits,
    AssignDeposit,
    Command,
    CreditDeposit,
    ImportKey,
    PaidTransfer,
    ReadLedger,
    ReadUsage,
    SetLimits,
    SetStatus,
    TakeBackDeposit,
)
from actors.accounts.core import ADJUSTMENT_MAX
from actors.accounts.deposits import INDEX_MAX
from actors.accounts.operations import ChargeOperations, HoldOperations
from actors.accounts.usage import usage_mistake
from actors.calls import OPERATION_BYTES

PAGE_MAX = 500
_OFFSET_MAX = 10**9
_HASH_BYTES, _PREFIX_MAX = 32, 32
_REF_CODE_MAX = 64
_REASON_MAX = 200
_OPERATION_MAX = 128
_PER_SECOND_MAX, _CONCURRENCY_MAX = 1_000_000, 100_000
_BASE_UNITS_MAX = 10**17  # More USDC than exists; keeps credits within the database's integers.
_NO_CHARGES = f"each operation has {OPERATION_BYTES} bytes, and costs 1 to {ADJUSTMENT_MAX} credits"
_NOT_NAMED = "a deposit is named by 64 bytes of signature and the number of a transfer"


def mistake_in(command: Command[Any]) -> str | None:
    """Return one sentence on what is wrong with the parameters of this command, or None."""
    match command:
        case ReadLedger(_, offset) if not 0 <= offset <= _OFFSET_MAX:
            return f"offset must be 0 to {_OFFSET_MAX}"
        case ReadLedger(_, _, limit) if not 0 <= limit <= PAGE_MAX:
            return f"limit must be 0 to {PAGE_MAX}"
        case ReadUsage(_, first_hour, end_hour, by):
            return usage_mistake(first_hour, end_hour, by)
        case AdjustCredits(_, amount) if not 0 < abs(amount) <= ADJUSTMENT_MAX:
            return f"the amount must be 1 to {ADJUSTMENT_MAX} credits, or as many below zero"
        case AdjustCredits(_, _, reason) if not _is_line(reason, 0, _REASON_MAX):
            return f"the reason must be at most {_REASON_MAX} printable characters"
        case AdjustCredits(operation=operation) if not _is_line(operation, 1, _OPERATION_MAX):
            return f"the operation must be 1 to {_OPERATION_MAX} printable characters"
        case HoldOperations(_, operations, each) if not _are_charges(operations, each):
            return _NO_CHARGES
        case ChargeOperations(_, operations, _, each) if not _are_charges(operations, each):
            return _NO_CHARGES
        case SetStatus(_, status) if status not in (ACTIVE, SUSPENDED):
            return f"the status must be {ACTIVE} or {SUSPENDED}"
        case ImportKey(_, key_hash, prefix) if len(key_hash) != _HASH_BYTES or not _is_line(prefix, 1, _PREFIX_MAX):
            return "a key is named by the 32 bytes of its hash and its first characters"
        case SetLimits(_, int(per_second)) if not 1 <= per_second <= _PER_SECOND_MAX:
            return f"requests per second must be 1 to {_PER_SECOND_MAX}"
        case SetLimits(_, _, int(concurrency)) if not 1 <= concurrency <= _CONCURRENCY_MAX:
            return f"concurrency must be 1 to {_CONCURRENCY_MAX}"
        case CreditDeposit(_, transfer) | AssignDeposit(_, transfer) if not _is_named(
            transfer.signature, transfer.index
        ):
            return _NOT_NAMED
        case TakeBackDeposit(_, signature, index) if not _is_named(signature, index):
            return _NOT_NAMED
        case CreditDeposit(_, paid) | AssignDeposit(_, paid) if not _is_worth_something(paid):
            return "a deposit has an amount above zero and a slot"
        case AssignDeposit(reason=reason) | TakeBackDeposit(reason=reason) if not _is_line(reason, 1, _REASON_MAX):
            return f"the reason must be 1 to {_REASON_MAX} printable characters"
    return None


def usable_ref_code(ref_code: str | None) -> str | None:
    """Return the code in its stored form; None: it cannot be a code, and is ignored, as the interface says of unknown
    codes."""
    if not ref_code or len(ref_code) > _REF_CODE_MAX or not ref_code.isascii() or not ref_code.isprintable():
        return None
    return ref_code


def _is_line(text: str, least: int, most: int) -> bool:
    return least <= len(text) <= most and text.isprintable()


def _are_charges(operations: tuple[bytes, ...], credits_each: int) -> bool:
    return 0 < credits_each <= ADJUSTMENT_MAX and all(len(operation) == OPERATION_BYTES for operation in operations)


def _is_named(signature: bytes, index: int) -> bool:
    return len(signature) == SIGNATURE_BYTES and 0 <= index <= INDEX_MAX


def _is_worth_something(transfer: PaidTransfer) -> bool:
    return 0 < transfer.base_units <= _BASE_UNITS_MAX and transfer.slot >= 0
