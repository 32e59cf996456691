import json

import pytest

from actors.events import ApiKeyRotated, CreditsAnomaly, CreditsExpiring, DepositCredited, Event, LowBalance
from actors.units import Credits, Pubkey, Signature, Slot, UnixSeconds, UsdcUnits
from actors.webhooks.payloads import WatchedTransaction, example, lifecycle_event, transaction_events
from actors.webhooks.registrations import FILTER_TYPES, WebhookFilter

AT = UnixSeconds(1_700_000_000)
ALICE = Pubkey("a")


@pytest.mark.parametrize(
    ("event", "name", "data"),
    [
        (LowBalance(ALICE, Credits(999), AT), "low_balance", {"balance": 999}),
        (ApiKeyRotated(ALICE, "srpc_live_ab", AT), "api_key.rotated", {"key_prefix": "srpc_live_ab"}),
        (
            CreditsAnomaly(ALICE, "slowed", Credits(50), Credits(100), "set", AT),
            "credits.anomaly",
            {"stage": "slowed", "spent": 50, "credits_an_hour": 100, "basis": "set"},
        ),
        (
            CreditsExpiring(ALICE, 4, "deposit", Credits(9), UnixSeconds(AT + 5), AT),
            "credits.expiring",
            {"batch": 4, "source": "deposit", "remaining": 9, "expires_at": AT + 5},
        ),
        (
            DepositCredited(ALICE, Signature("s"), 1, UsdcUnits(10_000), Credits(1_000), Credits(50), Slot(7), AT),
            "deposit.credited",
            {"signature": "s", "transfer_index": 1, "credits": 1_000, "bonus": 50, "slot": 7}
            | {"amount_base_units": 10_000, "amount_usdc": "0.01"},
        ),
    ],
)
def test_each_lifecycle_event_has_the_published_shape(event: Event, name: str, data: dict[str, object]) -> None:
    """Decisions, "lifecycle payload": `{event, pubkey, at, data}`."""
    queued = lifecycle_event(5, event)
    assert (queued.cause, queued.filter_type, queued.subject, queued.kind) == ("account:5", "lifecycle", "a", name)
    assert json.loads(queued.body) == {"event": name, "pubkey": "a", "at": AT, "data": data}


def test_a_transaction_is_one_event_for_each_account_and_invoked_program() -> None:
    """Named twice, or as a program that was not invoked, it is no event more."""
    transaction = WatchedTransaction("sig", 7, None, ("a", "b", "a", "p", "q"), frozenset("p"), 5_000, ("x" * 40_000,))
    queued = transaction_events(transaction, frozenset("apqz"), 1)
    assert [(each.filter_type, each.subject) for each in queued] == [
        *(("account", "a"), ("my_account", "a"), ("account", "p"), ("my_account", "p")),
        *(("account", "q"), ("my_account", "q"), ("program", "p")),
    ]
    assert len({each.cause for each in queued}) == 7
    body = json.loads(queued[-1].body)
    assert set(body) == {
        *("event", "filter_type", "filter_value", "signature", "slot", "block_time", "accounts", "fee", "logs"),
        *("token_transfers", "sol_transfers"),
    }
    assert body["logs"] == ["Log truncated"]


@pytest.mark.parametrize("kind", FILTER_TYPES)
def test_an_example_says_that_it_is_one(kind: str) -> None:
    """Decisions, "webhook test": of that webhook's type."""
    body = json.loads(example(WebhookFilter(kind, None, "a"), "a", 5))
    assert body["test"] is True
    assert ("kind" in body) == (kind == "signal")
