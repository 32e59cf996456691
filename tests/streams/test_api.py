"""The messages between the hub and replicas."""

from typing import Any

import pytest

from actors.accounts import api as accounts_api
from actors.hotlink.frames import message
from actors.streams.api import CHANGE, LINK_KINDS, POLL, CloseTopic, OpenTopic, PollEvents, TopicEvent, TopicEvents
from tests.streams.world import ONE


@pytest.mark.parametrize(
    ("kind", "item", "is_reply"),
    [
        (CHANGE, OpenTopic(ONE, 1, "slotSubscribe", b"[]", 7), False),
        (CHANGE, CloseTopic(ONE, 1), False),
        (POLL, PollEvents(ONE, 1, 2), False),
        (POLL, TopicEvents(1, 2, 3, 2, [TopicEvent(1, 0, b"x")], True), True),
    ],
)
def test_messages_survive_the_link(kind: Any, item: Any, is_reply: bool) -> None:
    """What is read is what was written."""
    decoder = kind.answer_decoder() if is_reply else kind.frame_decoder()
    assert decoder.decode(message(kind.number, (1, [(1, item)]))[1:]) == (1, [(1, item)])


def test_numbers_on_the_wire_have_one_meaning() -> None:
    """A number is never reused for another kind."""
    numbers = [kind.number for kind in (*LINK_KINDS, *accounts_api.LINK_KINDS)]
    assert len(set(numbers)) == len(numbers)
