"""Filters: what is accepted, what is refused before any charge, what matches."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.errors import Err, Refusal
from actors.signals.events import SignalEvent
from actors.signals.filters import SignalFilter, WantedSignals, read_arguments, read_query

KEY, OTHER = "So11111111111111111111111111111111111111112", "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA"
EVENT = SignalEvent("largeSwap", KEY, "s", 5, OTHER, (OTHER, "w"), lamports=50)


def test_an_absent_filter_matches_everything() -> None:
    """Interface, "WebSocket /ws"."""
    assert read_arguments([]) == read_arguments([{}]) == WantedSignals(SignalFilter(), None)
    assert SignalFilter().matches(EVENT)


@pytest.mark.parametrize(
    ("fields", "fits"),
    [
        ({"kinds": ["largeSwap", "newPair"]}, True),
        ({"kinds": ["newPair"]}, False),
        ({"mint": OTHER}, True),
        ({"mint": KEY}, False),
        ({"programs": [KEY]}, True),
        ({"programs": [OTHER]}, False),
        ({"wallets": [OTHER]}, True),
        ({"wallets": [KEY]}, False),
        ({"min_lamports": 50}, True),
        ({"min_lamports": 51}, False),
        ({"kinds": ["largeSwap"], "mint": KEY}, False),
    ],
)
def test_filters_combine_with_and(fields: dict[str, Any], fits: bool) -> None:
    """Interface; decisions, "watched wallets"."""
    wanted = read_arguments([fields])
    assert isinstance(wanted, WantedSignals) and wanted.filter.matches(EVENT) is fits


def test_wallets_of_an_activity_are_the_watched_ones() -> None:
    """All accounts of the transaction are named too, and do not count."""
    activity = msgspec.structs.replace(EVENT, kind="walletActivity", lamports=None, wallets=(KEY,))
    assert not SignalFilter(wallets=frozenset([OTHER])).matches(activity)
    assert SignalFilter(wallets=frozenset([KEY])).matches(activity)


@pytest.mark.parametrize(
    "arguments",
    [
        [1],
        [{}, {}],
        [{"kind": ["newPair"]}],
        [{"kinds": []}],
        [{"kinds": "newPair"}],
        [{"kinds": ["newpair"]}],
        [{"kinds": [["newPair"]]}],
        [{"mint": "0OIl"}],
        [{"mint": 5}],
        [{"programs": [KEY] * 101}],
        [{"wallets": []}],
        [{"min_lamports": -1}],
        [{"min_lamports": True}],
        [{"min_lamports": 1.5}],
        [{"min_lamports": 1 << 64}],
        [{"since": "yesterday"}],
        [{"since": 5}],
    ],
)
def test_what_is_not_understood_is_refused(arguments: list[Any]) -> None:
    """A clear error before any charge."""
    refusal = read_arguments(arguments)
    assert isinstance(refusal, Refusal) and refusal.err is Err.INVALID_PARAMS and refusal.detail


def test_a_query_has_the_same_filters() -> None:
    """Lists are separated by commas; `program` is one program."""
    query = {"kinds": "newPair,largeSwap", "program": KEY, "min_lamports": "7", "since": "5-1"}
    expected = read_arguments(
        [{"kinds": ["newPair", "largeSwap"], "programs": [KEY], "min_lamports": 7, "since": "5-1"}]
    )
    assert read_query(query) == expected
    for broken in ({"kinds": ""}, {"min_lamports": "٣"}, {"min_lamports": "1e3"}, {"x": "1"}, {"since": ""}):
        refusal = read_query(broken)
        assert isinstance(refusal, Refusal) and refusal.err is Err.INVALID_REQUEST
    known = "kinds, min_lamports, mint, program, programs, since, wallets"
    assert read_query({"x": "1"}) == Refusal(Err.INVALID_REQUEST, f"unknown parameter; wanted {known}")
    of_page = read_query({"x": "1", "limit": "5"}, ["limit"])
    assert isinstance(of_page, Refusal) and ", limit, " in of_page.detail and ", program, " in of_page.detail
    assert read_query({"limit": "5"}, ["limit"]) == WantedSignals(SignalFilter(), None)


_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=50) | st.just(KEY),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
_names = st.sampled_from(["kinds", "mint", "programs", "wallets", "min_lamports", "since", "x"])


@given(fields=st.dictionaries(_names, _values, max_size=4))
def test_any_json_is_filters_or_a_refusal(fields: dict[str, Any]) -> None:
    found = read_arguments([fields])
    if isinstance(found, WantedSignals):
        found.filter.matches(EVENT)
