"""Parameter checks and reply shapes of what the outside may ask of an account.

Implements: interface, "Account", "Ledger entry", "Usage history entry" and "Account endpoints"; decisions, section 2.
Pure. Field names of the wire appear here and nowhere else in this context.
"""

from datetime import UTC, datetime
from typing import Any

import base58

from actors.accounts.account import ACTIVE, SUSPENDED, Account
from actors.accounts.core import ADJUSTMENT_MAX
from actors.accounts.ledger import Entry, EntryType, describe
from actors.config import PaymentsConfig

PAGE_MAX = 500
_OFFSET_MAX = 10**9
_REF_CODE_MAX = 64
_REASON_MAX = 200
_OPERATION_MAX = 128
_DAY_SECONDS = 86_400
_NETWORK_NAMES = {"mainnet": "solana", "devnet": "solana-devnet", None: "solana"}
_ATTRIBUTION = "USDC must be sent from the same wallet public key that activates the account"


def base58_text(pubkey: bytes) -> str:
    return str(base58.b58encode(pubkey).decode())


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
        "last_deposit": account.last_deposit,
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
