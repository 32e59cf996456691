"""The window of past slots: bounded, in order, and never with a hole inside."""

from hypothesis import given
from hypothesis import strategies as st

from actors.geyser_proto import geyser_pb2
from actors.streams.hub.geyser_window import GeyserWindow

PROCESSED, FINALIZED = geyser_pb2.SLOT_PROCESSED, geyser_pb2.SLOT_FINALIZED
_ALL = 1 << 62


def filled(slots: int, slots_max: int = 100, bytes_max: int = 10_000, size: int = 10) -> GeyserWindow:
    window = GeyserWindow(slots_max, bytes_max, 1)
    for slot in range(1, slots + 1):
        window.add_block(slot, bytes(size))
        window.add_status(slot, PROCESSED, b"s")
    return window


@given(
    st.lists(st.tuples(st.integers(1, 40), st.sampled_from(["block", "status", "final"]), st.integers(0, 60))),
    st.integers(1, 10),
    st.integers(1, 200),
)
def test_what_is_kept_is_bounded_and_whole(steps: list[tuple[int, str, int]], slots_max: int, bytes_max: int) -> None:
    """Any order of updates: never more blocks or bytes of blocks than allowed; entries in order with numbers that rise
    by one; every final slot from the first one on has its block."""
    window, final = GeyserWindow(slots_max, bytes_max, 1), set()
    for slot, what, size in steps:
        if what == "block":
            window.add_block(slot, bytes(size))
        else:
            status = FINALIZED if what == "final" else PROCESSED
            window.add_status(slot, status, b"")
            final |= {slot} if what == "final" else set()
        blocks = [slot for slot in range(41) if window.block(slot) is not None]
        assert len(blocks) <= slots_max and sum(len(window.block(slot) or b"") for slot in blocks) <= bytes_max
        entries = window.after(0, 0, _ALL, 1_000)
        numbers = [entry.number for entry in entries]
        assert numbers == list(range(window.dropped + 1, window.newest + 1))
        first = window.first_slot
        if first is not None:
            kept = {entry.slot for entry in entries if entry.status == FINALIZED and entry.slot >= first}
            assert kept <= set(blocks)
            assert [entry.slot for entry in entries if entry.status is None and entry.slot >= first] or not blocks


def test_it_begins_with_the_first_slot_that_is_whole() -> None:
    """In the middle of a slot nothing is promised: the window begins above all slots that had begun."""
    window = GeyserWindow(10, 1_000, None)
    window.add_status(8, FINALIZED, b"")
    window.add_status(21, geyser_pb2.SLOT_CREATED_BANK, b"")
    window.add_block(20, b"block")
    assert window.first_slot is None and window.block(20) is None
    window.add_status(20, PROCESSED, b"")
    assert window.first_slot is None
    window.add_block(21, b"late")
    window.add_block(22, b"whole")
    assert (window.first_slot, window.block(21), window.block(22)) == (22, None, b"whole")


def test_the_oldest_slots_leave_first() -> None:
    assert filled(12, slots_max=5).first_slot == 8
    assert filled(12, bytes_max=45).first_slot == 9  # Four blocks of ten bytes.
    too_large = filled(3, bytes_max=5)
    assert too_large.first_slot is None and too_large.block(3) is None


def test_a_final_slot_without_its_block_ends_the_window_there() -> None:
    """A hole is never inside: what is older is refused."""
    window = filled(5)
    window.add_status(6, PROCESSED, b"")
    window.add_status(6, FINALIZED, b"")
    assert window.first_slot is None
    window.add_block(7, b"x")
    assert window.first_slot == 7 and window.block(5) is None
    assert {entry.slot for entry in window.after(0, 0, _ALL, 100)} == {7}


def test_entries_are_those_of_the_slots_asked_for_and_then_all() -> None:
    """A replay from slot 4 that asked at entry 8: of older slots it gets what came after it asked."""
    window = filled(5)
    window.add_status(2, FINALIZED, b"late")
    found = window.after(0, 4, 8, 100)
    assert [(entry.slot, entry.status) for entry in found] == [
        *((4, None), (4, PROCESSED), (5, None), (5, PROCESSED), (2, FINALIZED)),
    ]
    assert [entry.number for entry in window.after(9, 4, 8, 1)] == [10]
