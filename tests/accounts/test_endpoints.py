import base58
import pytest

from actors.accounts.core import decide_settle, decide_status
from actors.accounts.endpoints import (
    account_body,
    adjustment_body,
    adjustment_error,
    history_body,
    key_body,
    ledger_body,
    limits_error,
    page_error,
    profile_body,
    status_error,
    timestamp,
    usable_ref_code,
)
from actors.accounts.ledger import Entry, EntryType
from actors.config import PaymentsConfig
from tests.accounts.making import ALICE, START, START_MS, opened, settle, take

PAYMENTS = PaymentsConfig(network="devnet", deposit_wallet="So11111111111111111111111111111111111111112")
DEBIT = Entry(2, START_MS + 7, EntryType.DEBIT, -5, 95, b"", "getSlot", 0, "", "1:-5")
GRANT = Entry(1, START_MS, EntryType.ADJUSTMENT, 100, 100, b"", "", 0, "opening", "1:100")


def test_the_account_object_has_the_interfaces_fields() -> None:
    account = opened(credits=100)
    take(account, decide_settle(account, settle(1, 30), START, True).event)
    now = START_MS // 1000
    assert account_body(account, PAYMENTS) == {
        "ok": True,
        "pubkey": base58.b58encode(ALICE).decode(),
        "balance": 70,
        "deposit_address": "So11111111111111111111111111111111111111112",
        "funding": {
            "asset": "USDC",
            "network": "solana-devnet",
            "deposit_address": "So11111111111111111111111111111111111111112",
            "credits_per_usdc": 100_000,
            "credit_expiry_seconds": 365 * 86_400,
            "credit_expiry_days": 365,
            "attribution": "USDC must be sent from the same wallet public key that activates the account",
        },
        "status": "active",
        "total_consumed_credits": 30,
        "created_at": now,
        "last_deposit": None,
        "credit_batches": [
            {
                "id": 1,
                "source": "adjustment",
                "credits": 100,
                "remaining": 70,
                "created_at": now,
                "expires_at": now + 365 * 86_400,
            }
        ],
    }


def test_entries_have_the_interfaces_fields() -> None:
    assert ledger_body([DEBIT, GRANT]) == {
        "entries": [
            {
                "type": "debit",
                "amount": -5,
                "balance": 95,
                "description": "getSlot",
                "timestamp": "2023-11-14T22:13:20.007Z",
            },
            {
                "type": "adjustment",
                "amount": 100,
                "balance": 100,
                "description": "opening",
                "timestamp": "2023-11-14T22:13:20.000Z",
            },
        ]
    }
    assert history_body([DEBIT]) == {
        "entries": [{"method": "getSlot", "credits": 5, "timestamp": "2023-11-14T22:13:20.007Z"}]
    }
    assert timestamp(0) == "1970-01-01T00:00:00.000Z"


def test_the_operators_answers_name_what_was_done() -> None:
    account = opened(credits=100)
    take(account, decide_status(account, "suspended"))
    assert profile_body(account)["status"] == "suspended"
    assert adjustment_body(account, -7, True) | {"pubkey": ""} == {
        "ok": True,
        "pubkey": "",
        "amount": -7,
        "balance": 100,
        "already_applied": True,
    }
    assert key_body("srpc_live_x")["api_key"] == "srpc_live_x"


@pytest.mark.parametrize(
    ("offset", "limit", "good"), [(0, 0, True), (0, 500, True), (0, 501, False), (-1, 5, False), (10**10, 5, False)]
)
def test_pages_are_bounded(offset: int, limit: int, good: bool) -> None:
    """Decisions, "`offset`, `limit` of ledger and history"."""
    assert (page_error(offset, limit) is None) is good


@pytest.mark.parametrize(
    ("amount", "reason", "operation", "good"),
    [
        (1, "", "op", True),
        (-5, "chargeback", "op", True),
        (0, "", "op", False),
        (10**15 + 1, "", "op", False),
        (1, "a\nb", "op", False),
        (1, "x" * 201, "op", False),
        (1, "", "", False),
        (1, "", "x" * 129, False),
    ],
)
def test_adjustments_are_checked(amount: int, reason: str, operation: str, good: bool) -> None:
    """The reason is shown to the customer; the operation is kept for good."""
    assert (adjustment_error(amount, reason, operation) is None) is good


def test_statuses_and_limits_are_checked() -> None:
    assert status_error("active") is None and status_error("closed") is not None
    assert limits_error(None, None) is None and limits_error(1, 100_000) is None
    assert limits_error(0, None) is not None and limits_error(None, 100_001) is not None


def test_a_referral_code_that_cannot_be_one_is_ignored() -> None:
    """Interface: silently."""
    assert usable_ref_code("FRIEND-1") == "FRIEND-1"
    for bad in (None, "", "x" * 65, "tab\t", "üml"):
        assert usable_ref_code(bad) is None
