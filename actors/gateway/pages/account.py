"""Parameters and JSON of the account pages, in the interface's field names.

Implements: interface, "Account", "Ledger entry", "Usage history entry", "Account endpoints" and "Session token". Pure.
"""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl

import orjson

from actors.accounts.api import AccountState, DepositConfirmation
from actors.accounts.listings import LedgerLine
from actors.accounts.price_list import PUBLIC_WORD
from actors.accounts.runway import runway_of
from actors.calls import read_evidence
from actors.config import PaymentsConfig
from actors.errors import Err, Refusal
from actors.identity.signatures import parse_signature
from actors.units import Credits, base58_text, usdc_text
from actors.x402_types import network_of

_DAY_SECONDS = 86_400
_SIGNATURE_BYTES = 64  # An operation of a deposit begins with the signature of its transaction.
_ATTRIBUTION = "USDC must be sent from the same wallet public key that activates the account"
_PAGE_LIMIT, _PAGE_LIMIT_MAX, _PAGE_OFFSET_MAX = 50, 500, 1_000_000
_REF_CODE_CHARACTERS_MAX = 64
_LAST_SECOND = 253_402_300_799  # Last second of the calendar.
_BAD_KEY_BODY = Refusal(Err.INVALID_REQUEST, 'the body must be {} or {"ref_code": "..."}')
_BAD_DEPOSIT_BODY = Refusal(
    Err.INVALID_REQUEST, 'the body must be {"signature": "..."}, the transfer\'s in base58 of 64 bytes'
)


def parse_window(query: bytes) -> tuple[int, int] | Refusal:
    """Parse (offset, limit) of a listing; ignore other parameters."""
    window = {"offset": 0, "limit": _PAGE_LIMIT}
    bounds = {"offset": (0, _PAGE_OFFSET_MAX), "limit": (1, _PAGE_LIMIT_MAX)}
    for name, value in parse_qsl(query.decode("latin-1"), keep_blank_values=True):
        if name not in window:
            continue
        smallest, largest = bounds[name]
        # isascii too, because isdigit alone accepts digits of other scripts.
        number = int(value) if value.isascii() and value.isdigit() and len(value) <= 10 else -1
        if not smallest <= number <= largest:
            return Refusal(Err.INVALID_REQUEST, f"{name} must be a whole number from {smallest} to {largest}")
        window[name] = number
    return window["offset"], window["limit"]


def parse_deposit_signature(body: bytes) -> bytes | Refusal:
    """Parse the signature of POST /account/confirm-deposit."""
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        return _BAD_DEPOSIT_BODY
    text = value.get("signature") if isinstance(value, dict) else None
    signature = parse_signature(text) if isinstance(text, str) else None
    return _BAD_DEPOSIT_BODY if signature is None else signature


def parse_ref_code(body: bytes) -> str | Refusal | None:
    """Parse the referral code of POST /account/api-key, if there is one. An empty body counts as `{}`."""
    try:
        value = orjson.loads(body or b"{}")
    except orjson.JSONDecodeError:
        return _BAD_KEY_BODY
    if not isinstance(value, dict):
        return _BAD_KEY_BODY
    ref_code = value.get("ref_code")
    if ref_code is None:
        return None
    if not isinstance(ref_code, str):
        return _BAD_KEY_BODY
    # The interface ignores unknown codes, so a text that cannot be a code is ignored too.
    return ref_code if 0 < len(ref_code) <= _REF_CODE_CHARACTERS_MAX else None


def account_body(account: AccountState, payments: PaymentsConfig, now: int) -> dict[str, Any]:
    deposit_address = payments.deposit_wallet or ""
    return {
        "ok": True,
        "pubkey": base58_text(account.pubkey),
        "balance": account.balance,
        "deposit_address": deposit_address,
        "funding": {
            "asset": "USDC",
            "network": network_of(payments).v2,
            "network_name": network_of(payments).name,
            "deposit_address": deposit_address,
            "credits_per_usdc": payments.credits_per_usdc,
            "credit_expiry_seconds": payments.credit_expiry_days * _DAY_SECONDS,
            "credit_expiry_days": payments.credit_expiry_days,
            "attribution": _ATTRIBUTION,
        },
        "status": account.status,
        "price_list": account.price_list or PUBLIC_WORD,
        "total_consumed_credits": account.total_consumed,
        "created_at": account.created_at,
        "last_deposit": last_deposit_body(account),
        "credit_batches": batches_body(account),
        "runway": runway_body(account, now),
    } | later_body(account)


def runway_body(account: AccountState, now: int) -> dict[str, Any] | None:
    """None: the account's spending is unknown at the moment."""
    if account.in_day is None or account.hour_credits is None:
        return None
    batches, later = list(account.batches), Credits(later_credits(account))
    if later:  # Later batches count as if they expired with the last known one.
        batches.append(replace(batches[-1], credits=later, remaining=later))
    return runway_of(account.in_day, account.hour_credits, account.created_at, batches, now)._asdict()


def later_credits(account: AccountState) -> int:
    """Return the credits of batches that expire later than those in the list."""
    return account.balance - sum(batch.remaining for batch in account.batches)


def later_body(account: AccountState) -> dict[str, int]:
    """Return the field beside an incomplete credit_batches."""
    later = later_credits(account)
    return {"credits_of_later_batches": later} if later else {}


def last_deposit_body(account: AccountState) -> dict[str, Any] | None:
    last = account.last_deposit
    if last is None:
        return None
    return {
        "signature": base58_text(last.operation[:_SIGNATURE_BYTES]),
        "amount_base_units": last.base_units,
        "amount_usdc": usdc_text(last.base_units),
        "credits": last.credits,
        "slot": last.slot,
        "credited_at": last.at_ms // 1000,
    }


def batches_body(account: AccountState) -> list[dict[str, Any]]:
    return [
        {
            "id": batch.id,
            "source": batch.source.value,
            "credits": batch.credits,
            "remaining": batch.remaining,
            "created_at": batch.created_at,
            "expires_at": batch.expires_at,
        }
        for batch in account.batches
    ]


def ledger_entry(line: LedgerLine, detailed: bool = False) -> dict[str, Any]:
    """The interface's fields, and on request details of what the entry paid for.

    number: of the entry in its account's ledger. operation: in hex; of a call, it names its hold and its end for ever.
    signature: of the transaction of a deposit or a send. request_id: of the answer that was charged. digest: of its
    parameters and the answer (gateway/calls/evidence.py). key: id of the named key that paid. null: not known.
    """
    entry: dict[str, Any] = {
        "type": line.type,
        "amount": line.amount,
        "balance": line.balance,
        "description": line.description,
        "timestamp": timestamp(line.at_ms),
    }
    if not detailed:
        return entry
    is_deposit = line.type in ("deposit", "bonus") and len(line.operation) > _SIGNATURE_BYTES
    evidence = read_evidence(line.operation, line.evidence)
    signature = base58_text(line.operation[:_SIGNATURE_BYTES]) if is_deposit else evidence.transaction
    return entry | {
        "method": line.method or None,
        "outcome": line.outcome or None,
        "number": line.number,
        "operation": line.operation.hex() or None,
        "signature": signature or None,
        "request_id": evidence.request_id or None,
        "digest": evidence.digest or None,
        "cache": evidence.cache or None,
        "key": evidence.key or None,
    }


def history_body(lines: tuple[LedgerLine, ...]) -> dict[str, Any]:
    return {
        "entries": [
            {"method": line.method, "credits": -line.amount, "timestamp": timestamp(line.at_ms)} for line in lines
        ]
    }


def key_body(api_key: str) -> dict[str, Any]:
    return {
        "ok": True,
        "api_key": api_key,
        "message": "Store this key now: it is shown once. Earlier keys are invalid.",
    }


def confirmation_body(confirmed: DepositConfirmation) -> dict[str, Any]:
    """Other wallets appear only by their addresses, which are public on the chain."""
    body = {
        "ok": True,
        "credits_added": confirmed.credits_added,
        "new_balance": confirmed.new_balance,
        "already_processed": confirmed.already_processed,
    }
    others = [base58_text(pubkey) for pubkey in confirmed.credited_to]
    return body | {"credited_to": others} if others else body


def timestamp(at_ms: int) -> str:
    """ISO 8601 in UTC, with milliseconds."""
    moment = datetime.fromtimestamp(at_ms // 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{at_ms % 1000:03d}Z"


def iso_time(seconds: int) -> str:
    """ISO 8601 in UTC. A time outside the calendar becomes its last second."""
    return f"{datetime.fromtimestamp(min(seconds, _LAST_SECOND), UTC):%Y-%m-%dT%H:%M:%SZ}"
