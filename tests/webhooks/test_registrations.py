from dataclasses import replace
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


def wanted(**fields: Any) -> WantedWebhook | Refusal:
    return parse_wanted({"url": URL} | fields, OWN)


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
        (
            {"filter_type": "signal", "mint": ADDRESS, "programs": [ADDRESS, ADDRESS], "min_lamports": 2**64 - 1},
            WebhookFilter("signal", None, "", None, None, ADDRESS, (ADDRESS,), 2**64 - 1),
        ),
        ({"filter_type": "signal", "signal_events": None, "mint": None}, WebhookFilter("signal", None, "")),
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
        ({"filter_type": "lifecycle", "lifecycle_events": ["low_balance"] * 101}, "lifecycle_events"),
        ({"filter_type": "signal", "signal_events": ["newPair"] * 101}, "signal_events"),
        ({"filter_type": "signal", "signal_events": ["tx"]}, "signal_events"),
        ({"filter_type": "signal", "wallets": []}, "wallets"),
        ({"filter_type": "signal", "wallets": [ADDRESS] * 101}, "wallets"),
        ({"filter_type": "signal", "wallets": ["x"]}, "wallets"),
        ({"filter_type": "signal", "programs": [ADDRESS] * 101}, "programs"),
        ({"filter_type": "signal", "mint": "x"}, "mint"),
        *(({"filter_type": "signal", "min_lamports": size}, "min_lamports") for size in (-1, 2**64, True, 1.5, "1")),
        ({"filter_type": "account", "filter_value": ADDRESS, "min_lamports": 0}, "is for filter_type signal"),
        ({"filter_type": "signal", "filter_value": ADDRESS}, "takes no filter_value"),
        ({"filter_type": "my_account", "colour": 1}, "unknown field"),
        ({"filter_type": "my_account", "url": 5}, "url"),
    ],
)
def test_other_registrations_are_refused_with_the_reason(fields: dict[str, Any], words: str) -> None:
    """Interface, "Webhook management": the message 'unknown lifecycle event' among them."""
    found = wanted(**fields)
    assert isinstance(found, Refusal) and words in found.detail


def test_changes() -> None:
    """PATCH: of its type and its status alone; a field that is not named stays, null takes a filter away."""
    account, lifecycle = WebhookFilter("account", ADDRESS, ADDRESS), WebhookFilter("lifecycle", None, "a", ("low",))
    signal = WebhookFilter("signal", None, "", ("newPair",), (ADDRESS,), ADDRESS, (ADDRESS,), 7)
    assert parse_change({"status": "active"}, account) == Change(enable=True)
    changed = parse_change({"lifecycle_events": ["low_balance"]}, lifecycle)
    assert changed == Change(replace(lifecycle, kinds=("low_balance",)))
    assert parse_change({"wallets": None, "status": "disabled"}, signal) == Change(replace(signal, wallets=None), False)
    assert parse_change({"min_lamports": 8}, signal) == Change(replace(signal, min_lamports=8))
    for fields, found in (
        ({"lifecycle_events": ["x"]}, lifecycle),
        ({"lifecycle_events": None}, lifecycle),
        ({"wallets": [ADDRESS]}, account),
        ({"wallets": []}, signal),
        ({"filter_type": "signal"}, signal),
        (None, account),
    ):
        assert isinstance(parse_change(fields, found), Refusal), fields


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=5,
)
_NAMES = st.sampled_from(
    [
        *("url", "filter_type", "filter_value", "lifecycle_events", "signal_events", "wallets", "status"),
        *("mint", "programs", "min_lamports"),
    ]
)


@given(st.dictionaries(_NAMES, _JSON | st.sampled_from(["lifecycle", "signal", "account"])))
def test_no_body_raises(fields: dict[str, Any]) -> None:
    """Whatever JSON comes: a value."""
    assert parse_wanted(fields, OWN) is not None
    for kind in ("lifecycle", "signal", "account"):
        assert parse_change(fields, WebhookFilter(kind, None, "")) is not None
