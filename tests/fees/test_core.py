"""The percentile rules, by example and against an independent computation."""

import json
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.fees import core
from actors.fees.core import Basis

RECORDED = json.loads((Path(__file__).parent / "window_recorded.json").read_text(encoding="utf-8"))
WINDOWS = {name: [(entry["slot"], entry["prioritizationFee"]) for entry in window] for name, window in RECORDED.items()}

fees = st.lists(st.one_of(st.just(0), st.integers(0, 9), st.integers(0, (1 << 64) - 1)), min_size=1, max_size=150)


def independent_percentile(values: list[int], percent: int) -> int:
    """The percentile by its definition: the smallest value that enough values do not exceed."""
    enough = [
        value
        for value in values
        if Fraction(sum(other <= value for other in values), len(values)) >= Fraction(percent, 100)
    ]
    return min(enough)


def independent_suggestion(pairs: list[tuple[int, int]], scoped: bool) -> dict[str, int]:
    """The rules of the interface in independent code: window, paid slots, four percentiles."""
    newest = max(slot for slot, _ in pairs)
    values = [fee for slot, fee in pairs if newest - slot < 150]
    nonzero = [fee for fee in values if fee]
    counted = nonzero if scoped and len(nonzero) >= 3 else values
    names = ("low", "medium", "high", "veryHigh")
    return {name: independent_percentile(counted, p) for name, p in zip(names, (25, 50, 75, 90), strict=True)}


@given(values=fees, percent=st.integers(0, 100))
def test_nearest_rank_is_the_percentile_by_its_definition(values, percent):
    """For any window the result equals the definition, computed with fractions instead of a rank."""
    assert core.nearest_rank(sorted(values), percent) == independent_percentile(values, percent)


@given(
    values=fees,
    scoped=st.booleans(),
    first=st.integers(0, 1 << 40),
    gaps=st.lists(st.integers(1, 4), min_size=150, max_size=150),
    order=st.randoms(use_true_random=False),
)
def test_every_level_of_a_generated_window_is_as_computed_independently(values, scoped, first, gaps, order):
    """With skipped slots, in any order, and with more slots than belong to the window."""
    slot, pairs = first, []
    for value, gap in zip(values, gaps, strict=False):
        slot += gap
        pairs.append((slot, value))
    order.shuffle(pairs)
    taken = core.sample(core.in_window(pairs, core.WINDOW_SLOTS), paid_slots_only=scoped)
    assert core.levels(taken, core.LEVELS) == independent_suggestion(pairs, scoped)


@pytest.mark.parametrize("name", sorted(WINDOWS))
@given(start=st.integers(0, 149), length=st.integers(1, 150), scoped=st.booleans())
def test_every_level_of_a_recorded_window_is_as_computed_independently(name, start, length, scoped):
    """Any part of a recorded window, over all accounts and over one busy account."""
    pairs = WINDOWS[name][start : start + length]
    if pairs:
        taken = core.sample(core.in_window(pairs, core.WINDOW_SLOTS), paid_slots_only=scoped)
        assert core.levels(taken, core.LEVELS) == independent_suggestion(pairs, scoped)


@given(values=fees, scoped=st.booleans())
def test_levels_rise_and_occurred(values, scoped):
    """A higher urgency never gets a lower fee, and every suggested fee was paid in the window."""
    found = list(core.levels(core.sample(values, scoped), core.ESTIMATE_LEVELS).values())
    assert found == sorted(found)
    assert set(found) <= set(values)


@pytest.mark.parametrize(
    ("values", "scoped", "counted", "basis"),
    [
        ([0, 0, 5, 7], True, (0, 0, 5, 7), Basis.ALL_SLOTS),
        ([0, 0, 5, 7, 6], True, (5, 6, 7), Basis.PAID_SLOTS),
        ([0, 0, 5, 7, 6], False, (0, 0, 5, 6, 7), Basis.ALL_SLOTS),
        ([0, 0], True, (0, 0), Basis.ALL_SLOTS),
        ([1, 1, 1], True, (1, 1, 1), Basis.PAID_SLOTS),
    ],
)
def test_paid_slots_count_alone_from_three_of_them_on(values, scoped, counted, basis):
    """Interface: at least three sampled slots paid a fee, else all slots, and the result may be zero."""
    taken = core.sample(values, scoped)
    assert (taken.fees, taken.basis) == (counted, basis)
    assert (taken.sampled, taken.paid) == (len(values), sum(value > 0 for value in values))


def test_the_window_is_of_slots_not_of_entries():
    """Where slots were skipped, a node's 150 entries reach further back than 150 slots."""
    assert core.in_window([(1_000, 9), (1_148, 1), (1_149, 2)], 150) == [9, 1, 2]
    assert core.in_window([(999, 9), (1_148, 1), (1_149, 2)], 150) == [1, 2]
    assert core.in_window([(5, 3), (7, 4)], 1) == [4]
    assert core.in_window([], 150) == []


def test_the_percentiles_are_the_published_ones():
    """25, 50, 75, 90; `critical` is called veryHigh among the levels."""
    assert core.URGENCIES == {"low": 25, "medium": 50, "high": 75, "critical": 90}
    assert list(core.LEVELS.values()) == [25, 50, 75, 90]
    assert [core.nearest_rank(range(1, 151), percent) for percent in core.LEVELS.values()] == [38, 75, 113, 135]
