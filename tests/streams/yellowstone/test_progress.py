"""How far a feed is: what is delivered after it resumed, and from which slot it asks."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from actors.geyser_proto import geyser_pb2
from actors.streams.yellowstone.progress import Progress
from actors.streams.yellowstone.updates import SeenUpdate

P, C, F = geyser_pb2.SLOT_PROCESSED, geyser_pb2.SLOT_CONFIRMED, geyser_pb2.SLOT_FINALIZED
Event = tuple[int, str, Any]  # Slot, kind, and a number of the content or a status.


def seen(event: Event) -> SeenUpdate:
    slot, kind, what = event
    if kind == "status":
        return SeenUpdate(slot, hash(("slot", slot, what)), what, slot - 1)
    return SeenUpdate(slot, hash((kind, slot, what)))


def a_chain(slots: int, depth: int, contents: int) -> list[Event]:
    """What a node sends at processed: contents and status of each slot, and statuses of the slots behind it."""
    events: list[Event] = []
    for slot in range(100, 100 + slots):
        events += [(slot, "content", number) for number in range(contents)]
        events += [(slot, "status", P), (slot - 1, "status", C), (slot - depth, "status", F)]
    return events


@given(st.integers(3, 30), st.integers(2, 8), st.integers(0, 3), st.data())
def test_whatever_is_cut_off_is_delivered_once(slots: int, depth: int, contents: int, data: st.DataObject) -> None:
    """A feed that begins anywhere, breaks anywhere and resumes delivers every update after its beginning once.

    The replay is the node's: by slot, contents before statuses, from the slot that was asked for.
    """
    events = a_chain(slots, depth, contents)
    begin = data.draw(st.integers(0, len(events) - 1))
    cut = data.draw(st.integers(begin + 1, len(events)))
    back = data.draw(st.integers(cut, len(events)))
    progress = Progress(geyser_pb2.PROCESSED)
    delivered = [event for event in events[begin:cut] if progress.take(seen(event), False)]
    assert delivered == events[begin:cut]
    first = progress.resume_slot
    assert first is not None
    past = sorted((e for e in events[:back] if e[0] >= first), key=lambda e: (e[0], e[1] == "status"))
    resumed = [event for event in past + events[back:] if progress.take(seen(event), True)]
    assert len(set(delivered + resumed)) == len(delivered + resumed), "an update came twice"
    # Content of the slot in which the feed began may come that was sent before it; nothing older.
    began = min(event[0] for event in events[begin:cut])
    assert set(events[cut:]) <= set(delivered + resumed) | older_statuses(events[begin:cut], events[cut:])
    assert all(event[0] >= began for event in resumed if event[1] == "content")


def older_statuses(live: list[Event], later: list[Event]) -> set[Event]:
    """A status that the feed had never seen at all before the cut, of slots before those it asks for again: a feed so
    young has no final slot yet."""
    if any(kind == "status" and what == F for _, kind, what in live):
        return set()
    first = min(slot for slot, _, _ in live)
    return {event for event in later if event[1] == "status" and event[0] < first}


def test_it_resumes_at_the_first_slot_that_is_not_final() -> None:
    """A slot that is final has no more updates; one more is asked for, as a node may call a slot final a bit early."""
    progress = Progress(geyser_pb2.PROCESSED)
    for event in a_chain(20, 5, 1):
        progress.take(seen(event), False)
    assert progress.last_whole_slot == 114
    assert progress.resume_slot == 113


def test_a_slot_that_was_left_out_is_named_after_the_next_one() -> None:
    """A child that comes before its parent is no gap; a parent that never comes is one."""
    progress = Progress(geyser_pb2.CONFIRMED)

    def confirmed(slot: int, parent: int) -> int | None:
        update = SeenUpdate(slot, hash(("slot", slot, C)), C, parent)
        progress.take(update, False)
        return progress.lost_slot(update)

    assert [confirmed(1, 0), confirmed(2, 1)] == [None, None]
    assert [confirmed(4, 3), confirmed(3, 2), confirmed(5, 4)] == [None, None, None]
    assert [confirmed(7, 6), confirmed(8, 7)] == [None, 6]
    assert confirmed(9, 8) is None, "it is named once"


def test_what_had_to_be_forgotten_is_not_resumed() -> None:
    """Memory is bounded: without the marks of a slot, its updates could come twice."""
    progress = Progress(geyser_pb2.PROCESSED, marks_max=10)
    for number in range(8):
        progress.take(seen((1, "content", number)), False)
    assert progress.resume_slot == 1
    for number in range(8):
        progress.take(seen((2, "content", number)), False)
    progress.take(seen((0, "status", F)), False)
    assert progress.resume_slot is None


def test_a_node_that_repeats_itself_is_passed_on_until_the_feed_resumes() -> None:
    """The same updates as direct, so nothing is left out of a stream that was never cut."""
    progress = Progress(geyser_pb2.PROCESSED)
    event = seen((5, "content", 1))
    assert [progress.take(event, False), progress.take(event, False), progress.take(event, True)] == [True, True, False]
