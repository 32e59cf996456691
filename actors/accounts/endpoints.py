"""Parameter checks and reply shapes of what the outside may ask of an account.

Implements: interface, "Account", "Ledger entry", "Usage history entry" and "Account endpoints"; decisions, section 2.
Pure. Field names of the wire appear here and nowhere else in this context.
"""

from datetime import UTC, datetime
from typing import Any

from actors.accounts.account import ACTIVE, SIGNATURE_BYTES, SUSPENDED, Account, Deposit
from actors.accounts.api import DepositCredit
from actors.accounts.core import ADJUSTMENT_MAX
from actors.accounts.deposits import INDEX_MAX
from actors.accounts.ledger import Entry, EntryType, describe
from actors.accounts.referrals import Referral
from actors.config import PaymentsConfig
from actors.units import base58_text, usdc_text

PAGE_MAX = 500
_OFFSET_MAX = 10**9
_REF_CODE_MAX = 64
_REASON_MAX = 200
_OPERATION_MAX = 128
_BASE_UNITS_MAX = 10**17  # More USDC than there is; keeps credits within the database's numbers.
_DAY_SECONDS = 86_400
_NETWORK_NAMES = {"mainnet": "solana", "devnet": "solana-devnet", None: "solana"}
_ATTRIBUTION = "USDC must be sent from the same wallet public key that activates the account"


def page_error(offset: int, limit: int) -> str | None:
    if not 0 <= offset <= _OFFSET_MAX:
        return f"offset must be 0 to {_OFFSET_MAX}"
    return None if 0 <= limit <= PAGE_MAX else f"limit must be 0 to {PAGE_MAX}"


def adjustment_error(amount: int, reason: str, operation: str) -> str | None:
    if not 0 < abs(amount) <= ADJUSTMENT_MAX:
        return f"the amount must be 1 to {ADJUSTMENT_MAX} credits, or as many below zero"
    if len(reason) > _REASON_MAX or not reason.isprintable():
        return f"the reason must be at most {_REASON_MAX} printable characters"
    if not 0 < len(operation) <= _OPERATION_MAX or not operation.isprintable():
        return f"the operation must be 1 to {_OPERATION_MAX} printable characters"
    return None


def credit_error(credit: DepositCredit) -> str | None:
    if len(credit.signature) != SIGNATURE_BYTES or not 0 <= credit.index <= INDEX_MAX:
        return "a deposit is named by 64 bytes of signature and the number of a transfer"
    if not 0 < credit.base_units <= _BASE_UNITS_MAX or credit.slot < 0:
        return "a deposit has an amount above zero and a slot"
    return None


def reason_error(reason: str) -> str | None:
    if not 0 < len(reason) <= _REASON_MAX or not reason.isprintable():
        return f"the reason must be 1 to {_REASON_MAX} printable characters"
    return None


def status_error(status: str) -> str | None:
    return None if status in (ACTIVE, SUSPENDED) else f"the status must be {ACTIVE} or {SUSPENDED}"


def limits_error(requests_per_second: int | None, concurrency: int | None) -> str | None:
    if requests_per_second is not None and not 1 <= requests_per_second <= 1_000_000:
        return "requests per second must be 1 to 1000000"
    if concurrency is not None and not 1 <= concurrency <= 100_000:
        return "concurrency must be 1 to 100000"
    return None


def usable_ref_code(ref_code: str | None) -> str | None:
    """As it is kept; a code that cannot be one is ignored, as the interface has it for unknown codes."""
    if not ref_code or len(ref_code) > _REF_CODE_MAX or not ref_code.isascii() or not ref_code.isprintable():
        return None
    return ref_code


def account_body(account: Account, payments: PaymentsConfig) -> dict[str, Any]:
    deposit_address = payments.deposit_wallet or ""
    return {
        "ok": True,
        "pubkey": base58_text(account.pubkey),
        "balance": account.purse.balance,
        "deposit_address": deposit_address,
        "funding": {
            "asset": "USDC",
            "network": _NETWORK_NAMES[payments.network],
            "deposit_address": deposit_address,
            "credits_per_usdc": payments.credits_per_usdc,
            "credit_expiry_seconds": payments.credit_expiry_days * _DAY_SECONDS,
            "credit_expiry_days": payments.credit_expiry_days,
            "attribution": _ATTRIBUTION,
        },
        "status": account.profile.status,
        "total_consumed_credits": account.total_consumed,
        "created_at": account.profile.created_at,
        "last_deposit": None if account.last_deposit is None else last_deposit_body(account.last_deposit),
        "credit_batches": [
            {
                "id": batch.id,
                "source": batch.source.value,
                "credits": batch.credits,
                "remaining": batch.remaining,
                "created_at": batch.created_at,
                "expires_at": batch.expires_at,
            }
            for batch in account.purse.batches
        ],
    }


def last_deposit_body(deposit: Deposit) -> dict[str, Any]:
    return {
        "signature": base58_text(deposit.operation[:SIGNATURE_BYTES]),
        "amount_base_units": deposit.base_units,
        "amount_usdc": usdc_text(deposit.base_units),
        "credits": deposit.credits,
        "slot": deposit.slot,
        "credited_at": deposit.at_ms // 1000,
    }


def identity_body(pubkey: bytes, balance: int | None) -> dict[str, Any]:
    return {"pubkey": base58_text(pubkey), "balance": balance}


def credit_body(
    pubkey: bytes, credits: int, balance: int, already_processed: bool, taken_back: bool = False
) -> dict[str, Any]:
    """credits: what the transfer is worth with its bonus; added now, unless it was processed before."""
    return {
        "pubkey": base58_text(pubkey),
        "credits": credits,
        "credits_added": 0 if already_processed else credits,
        "new_balance": balance,
        "already_processed": already_processed,
        "taken_back": taken_back,
    }


def return_body(pubkey: bytes, taken: int, uncollected: int, balance: int, already_processed: bool) -> dict[str, Any]:
    return {
        "pubkey": base58_text(pubkey),
        "taken": taken,
        "uncollected": uncollected,
        "new_balance": balance,
        "already_processed": already_processed,
    }


def referral_body(referral: Referral, accounts: int | None) -> dict[str, Any]:
    """accounts: how many captured it; None: not counted."""
    body = {
        "code": referral.code,
        "bonus_percent": f"{referral.bonus_bps // 100}.{referral.bonus_bps % 100:02d}",
        "created_at": referral.created_at,
        "expires_at": referral.expires_at,
        "note": referral.note,
    }
    return body if accounts is None else body | {"accounts": accounts}


def ledger_body(entries: list[Entry]) -> dict[str, Any]:
    return {
        "entries": [
            {
                "type": EntryType(entry.type).name.lower(),
                "amount": entry.amount,
                "balance": entry.balance,
                "description": describe(entry),
                "timestamp": timestamp(entry.at_ms),
            }
            for entry in entries
        ]
    }


def history_body(entries: list[Entry]) -> dict[str, Any]:
    return {
        "entries": [
            {"method": entry.method, "credits": -entry.amount, "timestamp": timestamp(entry.at_ms)} for entry in entries
        ]
    }


def key_body(api_key: str) -> dict[str, Any]:
    return {
        "ok": True,
        "api_key": api_key,
        "message": "Store this key now: it is shown once. Earlier keys are invalid.",
    }


def profile_body(account: Account) -> dict[str, Any]:
    """Of the operator's actions."""
    return {
        "ok": True,
        "pubkey": base58_text(account.pubkey),
        "status": account.profile.status,
        "requests_per_second": account.rate_limit,
        "concurrency": account.concurrency_limit,
    }


def adjustment_body(account: Account, amount: int, already_applied: bool) -> dict[str, Any]:
    """amount: credits that were really moved, which for a removal may be fewer than were asked for."""
    return {
        "ok": True,
        "pubkey": base58_text(account.pubkey),
        "amount": amount,
        "balance": account.purse.balance,
        "already_applied": already_applied,
    }


def timestamp(at_ms: int) -> str:
    """ISO 8601 in UTC, with milliseconds."""
    moment = datetime.fromtimestamp(at_ms // 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{at_ms % 1000:03d}Z"
