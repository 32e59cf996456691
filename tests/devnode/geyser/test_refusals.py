"""Codes and texts that clients match on."""

import grpc
import pytest

from devnode.geyser import refusals
from devnode.geyser.refusals import End, bad_filter, no_longer_available, unknown_commitment
from devnode.geyser.settings import BadFilter

Code = grpc.StatusCode


@pytest.mark.parametrize(
    ("end", "code", "text"),
    [
        (refusals.LAGGED_SENDING, Code.INTERNAL, "lagged to send an update"),
        (refusals.LAGGED_RECEIVING, Code.INTERNAL, "lagged to receive geyser messages"),
        (refusals.NO_REPLAY, Code.INTERNAL, "from_slot is not supported"),
        (refusals.NOTHING_TO_REPLAY, Code.INTERNAL, "failed to get replay response"),
        (refusals.SHUTTING_DOWN, Code.UNAVAILABLE, "server is shutting down try again later"),
        (refusals.NO_TOKEN, Code.UNAUTHENTICATED, "No valid auth token"),
        (refusals.NO_BLOCK, Code.INTERNAL, "block is not available yet"),
        (bad_filter(BadFilter("why")), Code.INVALID_ARGUMENT, "failed to create filter: why"),
        (no_longer_available(5, 9), Code.OUT_OF_RANGE, "broadcast from 5 is not available, last available: 9"),
        (unknown_commitment(7), Code.UNKNOWN, "failed to create CommitmentLevel from 7"),
    ],
)
def test_the_texts_are_those_of_yellowstone(end: End, code: grpc.StatusCode, text: str) -> None:
    """Clients decide by them whether to try again."""
    assert end == End(code, text)
