"""Forks: which slots are lost."""

from hypothesis import given
from hypothesis import strategies as st

from actors.signals.slots import SLOTS_MAX, SlotTree


def test_a_confirmed_line_passes_the_lost_fork_by() -> None:
    """Threat 32: 11 and 12 were processed, and 13 was built on 10."""
    tree = SlotTree()
    for slot, parent in ((10, 9), (11, 10), (12, 11), (13, 10), (14, 13)):
        tree.note(slot, parent)
    assert tree.confirmed(10) == ()
    assert tree.confirmed(14) == (11, 12)
    assert tree.confirmed(14) == ()
    assert tree.confirmed(13) == ()  # Late news of an ancestor.


def test_a_dead_slot_is_lost_once() -> None:
    tree = SlotTree()
    tree.note(5, 4)
    assert tree.died(5) == (5,)
    assert tree.died(5) == ()


def test_a_slot_beyond_the_confirmed_one_is_not_lost_yet() -> None:
    tree = SlotTree()
    for slot, parent in ((10, 9), (11, 10), (12, 10)):
        tree.note(slot, parent)
    assert tree.confirmed(10) == ()
    assert tree.confirmed(12) == (11,)


def test_an_unknown_parent_condemns_nothing() -> None:
    """After a restart the parents of old slots are not known."""
    tree = SlotTree()
    tree.note(11, 10)
    tree.note(20, 19)
    assert tree.confirmed(20) == ()


@given(steps=st.lists(st.tuples(st.integers(1, 60), st.integers(1, 8), st.booleans()), max_size=80))
def test_no_slot_of_the_confirmed_line_is_ever_lost(steps: list[tuple[int, int, bool]]) -> None:
    """Any order of news: an ancestor of a confirmed slot is never told as lost, and memory is bounded."""
    tree, parents = SlotTree(), {}
    line: set[int] = set()
    best = 0
    for slot, back, confirms in steps:
        parent = parents.setdefault(slot, max(0, slot - back))
        tree.note(slot, parent)
        if confirms and slot > best:
            ancestors, each = {slot}, slot
            while each in parents:
                each = parents[each]
                ancestors.add(each)
            if line <= ancestors | set(range(min(ancestors))):  # A real chain never confirms two forks.
                best, line = slot, line | ancestors
                assert not set(tree.confirmed(slot)) & ancestors
    assert len(tree._parents) <= SLOTS_MAX
