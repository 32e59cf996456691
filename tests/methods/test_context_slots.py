"""How each method is kept from stepping back."""

import pytest

from actors.methods import context_slots
from actors.methods.catalog import METHODS
from actors.methods.context_slots import Monotony, config_of, kept, table, takes_min_slot, with_min_slot

ADDRESS = "11111111111111111111111111111111"


def test_every_offered_method_is_kept_in_one_way():
    """Decisions, "Monotonic reads": the table names each method once."""
    names = [name for _, methods in table() for name in methods]
    assert len(names) == len(set(names))
    assert set(names) == {name for name, row in METHODS.items() if row.callable} - {"sendBundle"}


def test_the_kinds_name_methods_that_there_are():
    named = {method for methods in context_slots._BY_KIND.values() for method in methods}
    assert named <= set(METHODS)


def test_a_method_that_asks_by_slot_takes_a_minimum():
    """Of an ASKED method the question is all that keeps it."""
    asked = [name for name in METHODS if kept(name) is Monotony.ASKED]
    assert asked and all(takes_min_slot(name) for name in asked)


def test_sends_are_not_kept():
    assert {kept(name) for name in ("sendTransaction", "sendAndConfirm", "sendSmartTransaction")} == {Monotony.NONE}
    assert with_min_slot("sendTransaction", ["AA=="], 7) is None


@pytest.mark.parametrize(
    ("method", "sent", "asked"),
    [
        ("getBalance", [ADDRESS], [ADDRESS, {"minContextSlot": 7}]),
        ("getBalance", [ADDRESS, None], [ADDRESS, {"minContextSlot": 7}]),
        (
            "getBalance",
            [ADDRESS, {"commitment": "confirmed"}],
            [ADDRESS, {"commitment": "confirmed", "minContextSlot": 7}],
        ),
        ("getBalance", [ADDRESS, {"minContextSlot": None}], [ADDRESS, {"minContextSlot": 7}]),
        ("getBalance", [ADDRESS, {"minContextSlot": 6}], [ADDRESS, {"minContextSlot": 7}]),
        ("getSlot", [], [{"minContextSlot": 7}]),
        (
            "getTokenAccountsByOwner",
            [ADDRESS, {"mint": ADDRESS}],
            [ADDRESS, {"mint": ADDRESS}, {"minContextSlot": 7}],
        ),
    ],
)
def test_the_minimum_stands_in_the_configuration(method, sent, asked):
    """The filter of getTokenAccountsByOwner is an object too, and none that takes it."""
    assert with_min_slot(method, sent, 7) == asked


def test_a_clients_own_larger_minimum_stays():
    assert with_min_slot("getBalance", [ADDRESS, {"minContextSlot": 8}], 7) is None
    assert with_min_slot("getBalance", [ADDRESS, {"minContextSlot": 7}], 7) is None


def test_a_method_without_a_minimum_is_left_alone():
    assert with_min_slot("getSignatureStatuses", [[]], 7) is None
    assert with_min_slot("getTransaction", ["1" * 64], 7) is None
    assert config_of("getTransaction", ["1" * 64, {"commitment": "confirmed"}]) == {"commitment": "confirmed"}
