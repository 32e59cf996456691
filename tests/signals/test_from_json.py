"""JSON transactions: every encoding, lookup tables, and any JSON value at all."""

import copy
import os
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.signals.from_json import read_json
from actors.signals.transaction import key_text
from tests.signals import samples

EXAMPLES = int(os.environ.get("SIGNALS_FUZZ", "200"))
WHOLE = [name for name in samples.of_signals() if "meta" in samples.load(name)["payload"]]


@pytest.mark.parametrize("name", WHOLE)
def test_a_whole_transaction_is_read(name: str) -> None:
    """Each instruction names a program and resolved accounts, in all three encodings."""
    payload = samples.load(name)["payload"]
    transaction = samples.transaction(samples.load(name))
    inner = sum(len(group["instructions"]) for group in payload["meta"]["innerInstructions"] or ())
    outer = {one.outer for one in transaction.instructions}
    assert len(transaction.instructions) == len(outer) + inner
    assert len(transaction.keys) == len(payload["meta"]["preBalances"])
    assert None not in {account for one in transaction.instructions for account in one.accounts}


def test_loaded_addresses_follow_the_static_keys() -> None:
    """Reading rule: static keys, then loaded writable, then loaded read-only ones."""
    payload = samples.load("jeffro_raydiumLiquidityPoolV4_swap_0")["payload"]
    transaction = samples.transaction(samples.load("jeffro_raydiumLiquidityPoolV4_swap_0"))
    loaded = payload["meta"]["loadedAddresses"]
    tail = [*loaded["writable"], *loaded["readonly"]]
    assert tail and [key_text(key) for key in transaction.keys[-len(tail) :]] == tail


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=8,
)


def _paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(deeper for key, each in inside for deeper in _paths(each, (*path, key)))]


_PAYLOADS = [samples.load(name)["payload"] for name in ("jeffro_pumpfun_buy_0", "raydium_ammv4_swaps_1")]
_PLACES = [(payload, path) for payload in _PAYLOADS for path in _paths(payload) if path]


@settings(max_examples=EXAMPLES)
@given(place=st.sampled_from(_PLACES), value=_json)
def test_any_value_at_any_place_is_read_or_none(place: tuple[Any, tuple[Any, ...]], value: Any) -> None:
    """Threat 33: a node's answer may be broken anywhere."""
    payload, path = copy.deepcopy(place[0]), place[1]
    target = payload
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = value
    read_json(1, payload)
    read_json(1, value)
