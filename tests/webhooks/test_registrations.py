from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.errors import Refusal
from actors.units import base58_text
from actors.webhooks.registrations import Change, WantedWebhook, WebhookFilter, parse_change, parse_wanted

OWN = bytes(range(32))
OWN_TEXT = base58_text(OWN)
ADDRESS = "So11111111111111111111111111111111111111112"
URL = "https://example.com/hook"


def wanted(has_signals: bool = True, **fields: Any) -> WantedWebhook | Refusal:
    return parse_wanted({"url": URL} | fields, OWN, has_signals)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"filter_type": "account", "filter_value": ADDRESS}, WebhookFilter("account", ADDRESS, ADDRESS)),
        ({"filter_type": "program", "filter_value": ADDRESS}, WebhookFilter("program", ADDRESS, ADDRESS)),
        ({"filter_type": "my_account"}, WebhookFilter("my_account", None, OWN_TEXT)),
        ({"filter_type": "my_account", "filter_value": OWN_TEXT}, WebhookFilter("my_account", OWN_TEXT, OWN_TEXT)),
        (
            {"filter_type": "lifecycle", "lifecycle_events": ["low_balance", "low_balance"]},
            WebhookFilter("lifecycle", None, OWN_TEXT, ("low_balance",)),
        ),
        ({"filter_type": "signal"}, WebhookFilter("signal", None, "")),
        (
            {"filter_type": "signal", "signal_events": ["newPair"], "wallets": [ADDRESS]},
            WebhookFilter("signal", None, "", ("newPair",), (ADDRESS,)),
        ),
    ],
)
def test_each_filter_type_is_read(fields: dict[str, Any], expected: WebhookFilter) -> None:
    """Interface, "Webhook subscription"."""
    assert wanted(**fields) == WantedWebhook(URL, expected)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "filter_type"),
        ({"filter_type": "everything"}, "filter_type"),
        ({"filter_type": ["account"]}, "filter_type"),
        ({"filter_type": "account"}, "filter_value"),
        ({"filter_type": "account", "filter_value": "x"}, "filter_value"),
        ({"filter_type": "program", "filter_value": 7}, "filter_value"),
        ({"filter_type": "my_account", "filter_value": ADDRESS}, "your own"),
        ({"filter_type": "lifecycle"}, "at least one"),
        ({"filter_type": "lifecycle", "lifecycle_events": []}, "at least one"),
        *(
            ({"filter_type": "lifecycle", "lifecycle_events": ["low_balance", name]}, "unknown lifecycle event")
            for name in ("tx.confirmed", "tx.failed", "tx.received", "token_transfer.received", 7, None, [])
        ),
        ({"filter_type": "lifecycle", "lifecycle_events": ["low_balance"], "filter_value": ADDRESS}, "filter_value"),
        ({"filter_type": "account", "filter_value": ADDRESS, "lifecycle_events": ["low_balance"]}, "lifecycle"),
        ({"filter_type": "signal", "signal_events": ["tx"]}, "signal_events"),
        ({"filter_type": "signal", "wallets": []}, "wallets"),
        ({"filter_type": "signal", "wallets": [ADDRESS] * 101}, "wallets"),
        ({"filter_type": "signal", "wallets": ["x"]}, "wallets"),
        ({"filter_type": "my_account", "colour": 1}, "unknown field"),
        ({"filter_type": "my_account", "url": 5}, "url"),
    ],
)
def test_other_registrations_are_refused_with_the_reason(fields: dict[str, Any], words: str) -> None:
    """Interface, "Webhook management": the message 'unknown lifecycle event' among them."""
    found = wanted(**fields)
    assert isinstance(found, Refusal) and words in found.detail


def test_signals_are_refused_until_this_service_emits_them() -> None:
    found = wanted(has_signals=False, filter_type="signal")
    assert isinstance(found, Refusal) and "not offered" in found.detail


def test_changes() -> None:
    """PATCH: of its type and its status alone."""
    assert parse_change({"status": "active"}, "account") == Change(enable=True)
    assert parse_change({"lifecycle_events": ["low_balance"]}, "lifecycle") == Change(kinds=("low_balance",))
    for fields, kind in (
        ({"lifecycle_events": ["x"]}, "lifecycle"),
        ({"wallets": [ADDRESS]}, "account"),
        (None, "account"),
    ):
        assert isinstance(parse_change(fields, kind), Refusal)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=5,
)
_NAMES = st.sampled_from(
    ["url", "filter_type", "filter_value", "lifecycle_events", "signal_events", "wallets", "status"]
)


@given(st.dictionaries(_NAMES, _JSON | st.sampled_from(["lifecycle", "signal", "account"])))
def test_no_body_raises(fields: dict[str, Any]) -> None:
    """Whatever JSON comes: a value."""
    assert parse_wanted(fields, OWN, True) is not None
    for kind in ("lifecycle", "signal", "account"):
        assert parse_change(fields, kind) is not None
