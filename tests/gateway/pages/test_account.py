"""JSON of the account pages."""

import base58

from actors.accounts.account import Deposit
from actors.accounts.api import AccountState, DepositConfirmation, LedgerLine
from actors.accounts.credits import Batch, Source
from actors.config import PaymentsConfig
from actors.gateway.pages.account import (
    account_body,
    confirmation_body,
    history_body,
    key_body,
    ledger_entry,
    timestamp,
)
from actors.units import Credits, UnixSeconds

ALICE, BOB = b"a" * 32, b"b" * 32
NOW = 1_700_000_000
PAYMENTS = PaymentsConfig(network="devnet", deposit_wallet="So11111111111111111111111111111111111111112")
DEBIT = LedgerLine("debit", "getSlot", -5, 95, "getSlot", NOW * 1000 + 7)
GRANT = LedgerLine("adjustment", "", 100, 100, "opening", NOW * 1000)


def test_the_account_object_has_the_interfaces_fields() -> None:
    batch = Batch(1, Source.ADJUSTMENT, Credits(100), Credits(70), UnixSeconds(NOW), UnixSeconds(NOW + 365 * 86_400))
    account = AccountState(ALICE, 70, "active", 30, NOW, 100, 10, None, (batch,))
    assert account_body(account, PAYMENTS, NOW) == {
        "ok": True,
        "pubkey": base58.b58encode(ALICE).decode(),
        "balance": 70,
        "deposit_address": "So11111111111111111111111111111111111111112",
        "funding": {
            "asset": "USDC",
            "network": "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1",
            "network_name": "Solana devnet",
            "deposit_address": "So11111111111111111111111111111111111111112",
            "credits_per_usdc": 100_000,
            "credit_expiry_seconds": 365 * 86_400,
            "credit_expiry_days": 365,
            "attribution": "USDC must be sent from the same wallet public key that activates the account",
        },
        "status": "active",
        "price_list": "public",
        "total_consumed_credits": 30,
        "created_at": NOW,
        "last_deposit": None,
        "credit_batches": [
            {
                "id": 1,
                "source": "adjustment",
                "credits": 100,
                "remaining": 70,
                "created_at": NOW,
                "expires_at": NOW + 365 * 86_400,
            }
        ],
        "runway": None,  # What it spends is not known.
    }


def test_entries_have_the_interfaces_fields() -> None:
    assert [ledger_entry(line) for line in (DEBIT, GRANT)] == [
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
    assert history_body((DEBIT,)) == {
        "entries": [{"method": "getSlot", "credits": 5, "timestamp": "2023-11-14T22:13:20.007Z"}]
    }
    assert timestamp(0) == "1970-01-01T00:00:00.000Z"


def test_the_last_deposit_has_the_interfaces_fields() -> None:
    deposit = Deposit(b"s" * 64 + bytes(4), 10_000, 100_000, 1_000, 50, 7, NOW * 1000 + 999)
    account = AccountState(ALICE, 1_050, "active", 0, NOW, 100, 10, deposit, ())
    assert account_body(account, PAYMENTS, NOW)["last_deposit"] == {
        "signature": base58.b58encode(b"s" * 64).decode(),
        "amount_base_units": 10_000,
        "amount_usdc": "0.01",
        "credits": 1_000,
        "slot": 7,
        "credited_at": NOW,
    }


def test_a_key_is_shown_once() -> None:
    assert key_body("srpc_live_x")["api_key"] == "srpc_live_x"


def test_other_wallets_of_a_deposit_are_named_and_nothing_more_is_told() -> None:
    """Interface: {ok, credits_added, new_balance, already_processed}, and no more when all credits are the caller's."""
    mine = {"ok": True, "credits_added": 1_000, "new_balance": 1_005, "already_processed": False}
    assert confirmation_body(DepositConfirmation(1_000, 1_005, False)) == mine
    theirs = confirmation_body(DepositConfirmation(0, 0, False, (BOB,)))
    assert theirs == mine | {"credits_added": 0, "new_balance": 0, "credited_to": [base58.b58encode(BOB).decode()]}
