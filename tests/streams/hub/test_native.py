"""The parameters of native subscriptions: what is refused, and what shares one subscription at the node."""

from typing import Any

import base58
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.errors import Err, Refusal
from actors.streams.hub.native import METHODS, TopicKey, read

KEY = "So11111111111111111111111111111111111111112"
SIGNATURE = base58.b58encode(bytes(range(1, 65))).decode()

_SAME = [
    ("accountSubscribe", [KEY], [KEY, {"commitment": "finalized"}]),
    ("accountSubscribe", [KEY], [KEY, {"dataSlice": {"offset": 0, "length": 4}, "minContextSlot": 7}]),
    (
        "programSubscribe",
        [KEY, {"encoding": "base64", "commitment": "confirmed"}],
        [KEY, {"commitment": "confirmed", "encoding": "base64", "filters": []}],
    ),
    ("signatureSubscribe", [SIGNATURE], [SIGNATURE, {"enableReceivedNotification": False}]),
    ("blockSubscribe", ["all"], ["all", {"encoding": "base64", "transactionDetails": "full", "showRewards": False}]),
    ("logsSubscribe", [{"mentions": [KEY]}], [{"mentions": [KEY]}, None]),
]
_DIFFERENT = [
    ("accountSubscribe", [KEY], [KEY, {"encoding": "base64"}]),
    ("accountSubscribe", [KEY], [KEY, {"commitment": "processed"}]),
    ("programSubscribe", [KEY], [KEY, {"filters": [{"dataSize": 165}]}]),
    ("signatureSubscribe", [SIGNATURE], [SIGNATURE, {"enableReceivedNotification": True}]),
    ("logsSubscribe", ["all"], ["allWithVotes"]),
]
_REFUSED: list[tuple[str, list[Any]]] = [
    ("accountSubscribe", []),
    ("accountSubscribe", ["l" * 44]),
    ("accountSubscribe", [KEY, {"encoding": "hex"}]),
    ("accountSubscribe", [KEY, {"commitment": "max"}]),
    ("accountSubscribe", [KEY, []]),
    ("accountSubscribe", [KEY, {}, 1]),
    ("accountSubscribe", [KEY, {"dataSlice": {"offset": -1, "length": 1}}]),
    ("programSubscribe", [KEY, {"filters": [{"dataSize": 1}] * 5}]),
    ("programSubscribe", [KEY, {"filters": [{"memcmp": {"offset": 0, "bytes": 7}}]}]),
    ("programSubscribe", [KEY, {"filters": ["other"]}]),
    ("logsSubscribe", ["some"]),
    ("logsSubscribe", [{"mentions": []}]),
    ("logsSubscribe", [{"mentions": [KEY, KEY]}]),
    ("signatureSubscribe", [KEY]),
    ("signatureSubscribe", [SIGNATURE, {"enableReceivedNotification": 1}]),
    ("blockSubscribe", ["all", {"commitment": "processed"}]),
    ("blockSubscribe", ["all", {"maxSupportedTransactionVersion": 256}]),
    ("blockSubscribe", [{"mentionsAccountOrProgram": 1}]),
    ("slotSubscribe", [1]),
]


@pytest.mark.parametrize(("method", "one", "two"), _SAME)
def test_equal_subscriptions_share_one_at_the_node(method: str, one: list[Any], two: list[Any]) -> None:
    """Design, "Growth". The form must not matter, only what is notified."""
    first = read(method, one)
    assert isinstance(first, TopicKey) and first == read(method, two)


@pytest.mark.parametrize(("method", "one", "two"), _DIFFERENT)
def test_different_subscriptions_share_none(method: str, one: list[Any], two: list[Any]) -> None:
    """A client never gets what it did not ask for."""
    first, second = read(method, one), read(method, two)
    assert isinstance(first, TopicKey) and isinstance(second, TopicKey) and first != second


@pytest.mark.parametrize(("method", "arguments"), _REFUSED)
def test_bad_parameters_are_refused_before_billing(method: str, arguments: list[Any]) -> None:
    """Interface: -32602, free, and nothing reaches the node."""
    refusal = read(method, arguments)
    assert isinstance(refusal, Refusal) and refusal.err is Err.INVALID_PARAMS and refusal.detail


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.sampled_from((KEY, SIGNATURE, "all")),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(("filters", "memcmp", "offset")), inner)
    ),
    max_leaves=8,
)


@given(method=st.sampled_from(sorted(METHODS)), arguments=st.lists(_json, max_size=3))
def test_no_parameters_cause_an_exception(method: str, arguments: list[Any]) -> None:
    """Threat 10."""
    assert isinstance(read(method, arguments), TopicKey | Refusal)
