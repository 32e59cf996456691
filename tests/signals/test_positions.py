"""Positions of slices: each has one owner among the classifiers, and begins where it was, whatever was kept before."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.signals.classify import PROGRAMS
from actors.signals.positions import SLICES, WALLETS_SLICE, plan, slices_of


@pytest.mark.parametrize("classifiers", [1, 2, 5, 12])
def test_every_slice_has_one_classifier(classifiers: int) -> None:
    """Decisions: partitioned by program; none has nothing to do."""
    parts = [slices_of(index, classifiers) for index in range(classifiers)]
    assert sorted(name for part in parts for name in part) == sorted(SLICES)
    assert all(parts) and WALLETS_SLICE in parts[0]


@given(counts=st.dictionaries(st.integers(1, 12), st.integers(1, 9_000), min_size=1), after=st.integers(1, 12))
def test_positions_of_a_release_before_are_taken_over(counts: dict[int, int], after: int) -> None:
    """That release kept one for each classifier. Where it ran with several numbers of them, the furthest one counts."""
    found = {f"{index}/{count}": str(slot) for count, slot in counts.items() for index in range(count)}
    for index in range(after):
        planned = plan(found, slices_of(index, after), {}, is_empty=False)
        assert planned.adopted == dict.fromkeys(SLICES, max(counts.values())) and not planned.is_lost
        assert sorted(planned.dropped) == sorted(found)


def test_each_slice_of_a_release_before_has_the_position_of_its_classifier() -> None:
    planned = plan({"0/3": "100", "1/3": "90", "2/3": "80"}, SLICES, {}, is_empty=False)
    assert [planned.adopted[program] for program in PROGRAMS[:4]] == [100, 90, 80, 100]
    assert planned.adopted[WALLETS_SLICE] == 100


def test_a_new_program_begins_where_the_slowest_of_the_others_is() -> None:
    """One that is far behind the others does not count: what it has to read is its own affair."""
    assert plan({"a": "5000", "b": "4900", "c": "10"}, ["new"], {}, is_empty=False).adopted == {"new": 4_900}


def test_a_position_that_is_known_is_kept_and_a_stored_one_stays() -> None:
    assert plan({"a": "50"}, ["a", "b"], {"a": 70, "b": 60}, is_empty=False).adopted == {"b": 60}


def test_nothing_is_lost_where_nothing_was() -> None:
    planned = plan({}, SLICES, {}, is_empty=True)
    assert not planned.adopted and not planned.is_lost


@pytest.mark.parametrize("found", [{}, {"a": "x"}, {"a": ""}, {"a": "-5"}, {"a": str(1 << 60)}, {"a": "x", "b": "50"}])
def test_a_position_that_cannot_be_read_is_lost(found: dict[str, str]) -> None:
    """With signals in the log, nobody can say from where on they are missing."""
    planned = plan(found, ["a"], {}, is_empty=False)
    assert planned.is_lost and "a" not in planned.adopted
