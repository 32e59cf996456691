"""What one actor may serve and write: what it claimed last, and nothing that another one has claimed."""

from actors.ownership.api import Owned
from actors.ownership.held import GIVEN_SECONDS_MAX, HeldSlices, Reconciled


def a_holder() -> HeldSlices:
    held = HeldSlices()
    held.took([1, 2], 7)
    held.took([3], 9)
    return held


def test_what_was_taken_is_served_and_written_by_its_epoch() -> None:
    held = a_holder()
    assert held.serving() == {1: 7, 2: 7, 3: 9} and held.serves(1) and held.epoch(3) == 9
    assert not held.serves(4) and held.epoch(4) is None


def test_what_was_given_is_finished_and_not_served() -> None:
    """Its epoch stays for what is under way; given twice, or never held, is nothing."""
    held = a_holder()
    assert held.give([1, 3, 5], 100.0) == [1, 3]
    assert held.give([1], 101.0) == []
    assert held.serving() == {2: 7} and held.epoch(1) == 7
    held.took([1], 12)
    assert held.serves(1) and held.epoch(1) == 12


def test_a_refused_write_loses_its_slice_and_no_newer_one() -> None:
    held = a_holder()
    held.took([1], 12)
    held.lose(1, 7)
    assert held.epoch(1) == 12
    held.lose(1, 12)
    assert not held.serves(1) and held.epoch(1) is None
    assert held.serves(2)


def test_the_store_decides_who_holds_what() -> None:
    """Another name, or another epoch of the same name, means that this process has it no more."""
    held = a_holder()
    stored = {1: Owned("me", 7), 2: Owned("me", 8), 3: Owned("other", 9)}
    assert held.reconcile(stored, "me", 100.0) == Reconciled([2, 3], [])
    assert held.serving() == {1: 7}


def test_what_was_given_and_taken_by_nobody_is_served_again() -> None:
    """A mover died between the two. Until then, and where somebody took it, it stays given."""
    held = a_holder()
    held.give([1, 2], 100.0)
    stored = {1: Owned("me", 7), 2: Owned("other", 11), 3: Owned("me", 9)}
    assert held.reconcile(stored, "me", 100.0 + GIVEN_SECONDS_MAX - 1) == Reconciled([2], [])
    assert not held.serves(1)
    assert held.reconcile(stored, "me", 100.0 + GIVEN_SECONDS_MAX) == Reconciled([], [1])
    assert held.serves(1) and not held.serves(2)
