"""Room for messages that are not complete: what fits, and what is left afterwards."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.http_server.unfinished_messages import UnfinishedMessages

SIZES = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 60)), max_size=80)


@given(sizes=SIZES)
@pytest.mark.threat(30)
def test_neither_the_process_nor_an_owner_has_more_than_its_limit(sizes: list[tuple[int, int]]) -> None:
    """Threat 30: whatever connections ask for. What is refused changes nothing, and a message that shrinks or
    ends is never refused. Two connections belong to each owner."""
    unfinished, held = UnfinishedMessages(100, 50), Counter[int]()
    for connection, size in sizes:
        owner, before = connection // 2, held[connection]
        others = held[owner * 2] + held[owner * 2 + 1] - before
        fits = size <= before or (held.total() - before + size <= 100 and others + size <= 50)
        assert unfinished.resize(b"%d" % owner, before, size) == fits
        if fits:
            held[connection] = size
        assert unfinished.bytes == held.total()
    for connection, before in held.items():
        assert unfinished.resize(b"%d" % (connection // 2), before, 0)
    assert (unfinished.bytes, unfinished.owners) == (0, 0)
