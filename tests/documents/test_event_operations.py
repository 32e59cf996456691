"""The rows of webhooks and signals: their schemas say what the product takes."""

import re
from typing import Any

import jsonschema
from hypothesis import given
from hypothesis import strategies as st

from actors.documents.event_operations import SIGNALS, WEBHOOKS
from actors.documents.operation import Access
from actors.errors import Refusal
from actors.signals.events import KINDS
from actors.signals.log import parse_cursor
from actors.units import base58_text
from actors.webhooks import registrations
from actors.webhooks.registrations import WebhookFilter, parse_change, parse_wanted
from actors.webhooks.targets import EgressRules, url_fault

OWN, OTHER = bytes(range(32)), bytes([9] * 32)
ROWS = {row.endpoint: row for row in WEBHOOKS}
NEW, CHANGED = ROWS["POST /webhooks"].request or {}, ROWS["PATCH /webhooks/{id}"].request or {}
URL = NEW["anyOf"][0]["properties"]["url"]

_key = st.sampled_from((base58_text(OWN), base58_text(OWN)[:-1] + "0", "", 7, None))
_events = st.sampled_from((*registrations.LIFECYCLE_EVENTS[:2], *registrations.SIGNAL_KINDS[:2], "tx.confirmed", 1))
# Each field as it may be, as another field may be, and as nothing may be.
_values = st.one_of(
    _key,
    st.lists(_events, max_size=2),
    st.lists(_key, max_size=2),
    st.sampled_from((0, 1 << 64, (1 << 64) - 1, 57.0, 5.5, -1, True, {}, "https://example.com/", "active", "disabled")),
)
_names = ("filter_value", "lifecycle_events", "signal_events", "wallets", "programs", "mint", "min_lamports", "status")
_fields = st.fixed_dictionaries({}, optional=dict.fromkeys((*_names, "unknown"), _values))


def is_valid(value: Any, schema: dict[str, Any]) -> bool:
    return jsonschema.Draft202012Validator(schema).is_valid(value)


def test_webhooks_belong_to_an_account_and_recent_signals_to_everybody() -> None:
    """Interface, "Webhook management" and "Public endpoints"."""
    assert {row.access for row in WEBHOOKS} == {Access.ACCOUNT} and all(row.is_limited for row in WEBHOOKS)
    assert {row.path: row.access for row in SIGNALS} == {
        "/signals/recent": Access.PUBLIC,
        "/signals/stream": Access.ACCOUNT,
        "/signals/history": Access.ACCOUNT,
    }


@given(fields=_fields, kind=st.sampled_from((*registrations.FILTER_TYPES, "other")))
def test_a_webhook_is_documented_as_it_is_taken(fields: dict[str, Any], kind: str) -> None:
    """The body of POST /webhooks fits the document exactly if the product takes it."""
    wanted = {"url": "https://example.com/", "filter_type": kind, **fields}
    is_taken = not isinstance(parse_wanted(wanted, OWN), Refusal)
    assert is_valid(wanted, NEW) is is_taken, wanted
    assert not is_valid(fields, NEW) and isinstance(parse_wanted(fields, OWN), Refusal)


def test_a_webhook_of_every_type_is_documented() -> None:
    """Examples by hand, so that the property above is not about refusals alone; lists have 1 to 100 elements."""
    key, kinds = base58_text(OTHER), list(registrations.SIGNAL_KINDS)
    signals = {"signal_events": kinds, "wallets": [key] * 100, "programs": [key], "mint": key, "min_lamports": 5}
    for kind, fields in (
        ("account", {"filter_value": key}),
        ("program", {"filter_value": key, "wallets": None}),
        ("my_account", {}),
        ("my_account", {"filter_value": base58_text(OWN)}),
        ("lifecycle", {"lifecycle_events": list(registrations.LIFECYCLE_EVENTS)}),
        ("signal", {}),
        ("signal", signals),
    ):
        wanted = {"url": "https://example.com/", "filter_type": kind, **fields}
        assert is_valid(wanted, NEW) and not isinstance(parse_wanted(wanted, OWN), Refusal)
    assert not is_valid({"url": "https://example.com/", "filter_type": "signal", "wallets": [key] * 101}, NEW)


@given(fields=_fields)
def test_a_change_is_documented_as_it_is_taken(fields: dict[str, Any]) -> None:
    """The body of PATCH fits the document exactly if webhooks of some type take it."""
    present = [WebhookFilter(kind, None, "") for kind in registrations.FILTER_TYPES]
    is_taken = any(not isinstance(parse_change(fields, each), Refusal) for each in present)
    assert is_valid(fields, CHANGED) is is_taken, fields


@given(
    url=st.one_of(
        st.from_regex(r"https?://[a-zA-Z0-9.\[\]:@_-]{1,20}[/?#]?[ -~]{0,9}", fullmatch=True),
        st.from_regex(URL["pattern"]),
        st.just("https://example.com/" + "a" * 2_029),
        st.just(""),
    )
)
def test_every_url_that_is_taken_is_documented(url: str) -> None:
    """The guard refuses more, by what the host is; no URL that it takes is against the document."""
    if url_fault(url, EgressRules(allow_loopback=True)) is None:
        assert is_valid(url, URL), url


@given(text=st.from_regex(r"\A[0-9]{0,17}-?[0-9]{0,12}\Z"))
def test_since_is_documented_as_cursors_are(text: str) -> None:
    """A client can tell a cursor by the document's pattern."""
    for row in SIGNALS:
        query = dict(row.query)
        pattern = (query.get("since") or query["cursor"])["pattern"]
        assert (re.search(pattern, text.strip("\n")) is not None) is (parse_cursor(text.strip("\n")) is not None)
        assert all(re.search(dict(row.query)["kinds"]["pattern"], kind) for kind in KINDS)
