from hypothesis import given
from hypothesis import strategies as st

from actors.upstream.memory_budget import Room


def test_who_finds_no_room_is_called_when_there_is_some():
    """In the order in which they came: a large answer is not passed by smaller ones for ever."""
    room, called = Room(10), []
    assert room.claim(6, lambda: called.append("a"))
    assert not room.claim(8, lambda: called.append("b"))
    assert not room.claim(1, lambda: called.append("c"))
    assert called == []
    room.give_back(6)
    assert called == ["b", "c"]
    assert room.bytes_free == 1


def test_who_gives_up_stands_in_nobodys_way():
    """A client that left must not keep others waiting."""
    room, called = Room(10), []
    big, small = (lambda: called.append("big")), (lambda: called.append("small"))
    assert room.claim(6, lambda: None)
    assert not room.claim(10, big)
    assert not room.claim(4, small)
    room.withdraw(big)
    assert called == ["small"]
    assert room.bytes_free == 0


@given(st.lists(st.tuples(st.sampled_from(["claim", "back", "withdraw"]), st.integers(1, 10)), max_size=60))
def test_room_is_neither_made_nor_lost(steps):
    """Whatever is claimed, withdrawn and given back, what is had and what is free are all there is."""
    room, had, waiting = Room(10), [], []
    for step, size in steps:
        if step == "claim":
            entry: list = []

            def granted(entry=entry, size=size):
                waiting.remove(entry)
                had.append(size)

            entry += [granted]
            waiting.append(entry)
            if room.claim(size, granted):
                granted()
        elif step == "back" and had:
            room.give_back(had.pop(0))
        elif step == "withdraw" and waiting:
            (leaving,) = waiting.pop()
            room.withdraw(leaving)
        assert sum(had) + room.bytes_free == 10
        assert room.bytes_free >= 0
