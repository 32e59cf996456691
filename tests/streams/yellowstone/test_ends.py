"""What a user reads when a stream ends."""

import grpc
import pytest

from actors.streams.yellowstone import ends as geyser_ends
from actors.streams.yellowstone.ends import StreamEnd
from actors.streams.yellowstone.stream import status_of


@pytest.mark.parametrize(
    ("end", "code", "says"),
    [
        (geyser_ends.bad_filter("why"), grpc.StatusCode.INVALID_ARGUMENT, "failed to create filter: why"),
        (geyser_ends.too_slow(7, "1 update"), grpc.StatusCode.RESOURCE_EXHAUSTED, "subscribe again with from_slot 7"),
        (geyser_ends.too_slow(None, "1 update"), grpc.StatusCode.RESOURCE_EXHAUSTED, "the client reads too slowly"),
        (geyser_ends.lost(9, "why"), grpc.StatusCode.DATA_LOSS, "updates of the slots from 9 on are lost: why"),
        (geyser_ends.TOO_LATE, grpc.StatusCode.DEADLINE_EXCEEDED, "allow it more time"),
        (geyser_ends.SHUTTING_DOWN, grpc.StatusCode.UNAVAILABLE, "server is shutting down try again later"),
        (geyser_ends.too_many_streams(3), grpc.StatusCode.RESOURCE_EXHAUSTED, "max subscription limit exceeded: 3"),
    ],
)
def test_an_end_has_grpcs_code_and_says_what_to_do(end: StreamEnd, code: grpc.StatusCode, says: str) -> None:
    """Numbers are gRPC's; clients hide everything but the text."""
    assert status_of(end) is code and says in end.text
