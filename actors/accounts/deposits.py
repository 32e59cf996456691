"""Decides the credits of a deposit, and the taking back of a payment that never became final.

Implements: interface, "Credits are organised in batches that expire" and `ref_code`; money rules 4, 6 and 7
and decisions, "Two ways to pay by x402" (a payment that then fails to finalize is taken back by an `adjustment`). Pure.
The caller has checked that the operation is new. Not here: which transfers are deposits, and whose (deposits/).
"""

from actors.accounts.account import (
    SIGNATURE_BYTES,
    Account,
    Deposit,
    MarkKind,
    Moment,
    Moved,
    Return,
    adjust_key,
    deposit_key,
)
from actors.accounts.core import make_mark, moved
from actors.accounts.credits import Batch, Moves, Source, plan_grant, plan_spend
from actors.accounts.ledger import EntryType
from actors.units import UNITS_PER_USDC, usdc_text

BPS = 10_000
INDEX_MAX = 2**32 - 1
DEPOSIT_OPERATION_BYTES = SIGNATURE_BYTES + 4
ASSIGN, RETURN = b"assign:", b"return:"  # Prefixes of the entries' operations, before the operation of the deposit.


def deposit_operation(signature: bytes, index: int) -> bytes:
    """Return the unique name of one token transfer. index: its number in the transaction
    (deposits/usdc/transfers.py).
    """
    assert len(signature) == SIGNATURE_BYTES, len(signature)
    assert 0 <= index <= INDEX_MAX, index
    return signature + index.to_bytes(4, "big")


def credits_for(base_units: int, credits_per_usdc: int) -> int:
    """Return whole credits, rounded down."""
    return base_units * credits_per_usdc // UNITS_PER_USDC


def bonus_for(credits: int, bonus_bps: int | None) -> int:
    return credits * (bonus_bps or 0) // BPS


def known_deposit(account: Account, operation: bytes) -> bool:
    """Return whether memory has this deposit; the store may not have it yet."""
    return account.operations.get(deposit_key(operation)) is not None


def known_return(account: Account, operation: bytes) -> bool:
    return account.operations.get(adjust_key(RETURN + operation)) is not None


def decide_deposit(
    account: Account,
    operation: bytes,
    base_units: int,
    slot: int,
    credits_per_usdc: int,
    moment: Moment,
    assigned: str | None = None,
) -> Moved | None:
    """Make the deposit's entry and batch. Apply the event, then call decide_bonus for a linked referral code.

    assigned: the operator's reason to give this account a transfer that names no wallet: an adjustment, without a
    bonus. None: the amount is worth less than a credit.
    """
    credits = credits_for(base_units, credits_per_usdc)
    if credits == 0:
        return None
    bonus = bonus_for(credits, account.profile.ref_bonus_bps) if assigned is None else 0
    deposit = Deposit(
        operation, base_units, credits_per_usdc, credits, bonus, slot, moment.wall_ms, assigned=assigned is not None
    )
    text = f"deposit of {usdc_text(base_units)} USDC"
    if assigned is None:
        moves, fresh = _granted(account, Source.DEPOSIT, credits, moment)
        return moved(
            account, moment, EntryType.DEPOSIT, moves, operation, description=text, fresh=fresh, deposit=deposit
        )
    moves, fresh = _granted(account, Source.ADJUSTMENT, credits, moment)
    own, text = ASSIGN + operation, f"{text} assigned by the operator: {assigned}"
    mark = make_mark(MarkKind.ADJUST, own, moment, credits)
    return moved(
        account, moment, EntryType.ADJUSTMENT, moves, own, description=text, fresh=fresh, mark=mark, deposit=deposit
    )


def decide_bonus(account: Account, deposit: Deposit, moment: Moment) -> Moved | None:
    """Make the entry of the referral bonus of a deposit that was just applied; None without a bonus."""
    if deposit.bonus == 0:
        return None
    moves, fresh = _granted(account, Source.REFERRAL_BONUS, deposit.bonus, moment)
    text = f"referral bonus, code {account.profile.ref_code}"
    return moved(account, moment, EntryType.BONUS, moves, deposit.operation, description=text, fresh=fresh)


def _granted(account: Account, source: Source, credits: int, moment: Moment) -> tuple[Moves, Batch]:
    return plan_grant(account.purse, source, credits, moment.wall_ms // 1000, account.defaults.batch_seconds)


def decide_return(account: Account, operation: bytes, amount: int, reason: str, moment: Moment) -> Moved:
    """Take back `amount` credits of a deposit, at most what is available; the rest is recorded as uncollected.

    An entry is made even when nothing is available: the ledger must show that the payment failed.
    """
    taken = min(amount, account.purse.available)
    moves: Moves = plan_spend(account.purse, taken) if taken else ()
    own = RETURN + operation
    mark = make_mark(MarkKind.ADJUST, own, moment, -taken)
    text = f"payment taken back: {reason}"
    if taken < amount:
        text += f"; {amount - taken} of {amount} credits uncollected"
    returned = Return(operation, taken, amount - taken, moment.wall_ms)
    return moved(account, moment, EntryType.ADJUSTMENT, moves, own, description=text, mark=mark, returned=returned)
