"""The codes and texts with which a stream or call ends.

Implements: the status texts of Yellowstone servers, because clients match on them. Values only.
"""

from dataclasses import dataclass

import grpc

from devnode.geyser.settings import BadFilter


@dataclass(frozen=True, slots=True)
class End:
    """How a stream ends."""

    code: grpc.StatusCode
    text: str


LAGGED_SENDING = End(grpc.StatusCode.INTERNAL, "lagged to send an update")
LAGGED_RECEIVING = End(grpc.StatusCode.INTERNAL, "lagged to receive geyser messages")
BROKEN = End(grpc.StatusCode.INTERNAL, "the stream broke; the node's log says why")
NO_REPLAY = End(grpc.StatusCode.INTERNAL, "from_slot is not supported")
NOTHING_TO_REPLAY = End(grpc.StatusCode.INTERNAL, "failed to get replay response")
SHUTTING_DOWN = End(grpc.StatusCode.UNAVAILABLE, "server is shutting down try again later")
CUT = End(grpc.StatusCode.UNAVAILABLE, "connection cut by fault injection")
NO_TOKEN = End(grpc.StatusCode.UNAUTHENTICATED, "No valid auth token")
NO_BLOCK = End(grpc.StatusCode.INTERNAL, "block is not available yet")
NO_SHREDS = End(
    grpc.StatusCode.UNIMPLEMENTED,
    "this node has no shreds, so it cannot send transactions before execution; use Subscribe",
)


def bad_filter(error: BadFilter) -> End:
    return End(grpc.StatusCode.INVALID_ARGUMENT, f"failed to create filter: {error}")


def undecodable(error: Exception) -> End:
    return End(grpc.StatusCode.INTERNAL, f"failed to decode Protobuf message: {error}")


def no_longer_available(from_slot: int, first: int) -> End:
    return End(grpc.StatusCode.OUT_OF_RANGE, f"broadcast from {from_slot} is not available, last available: {first}")


def unknown_commitment(number: int) -> End:
    """The end of a unary call; a subscription with such a commitment is refused as a bad filter."""
    return End(grpc.StatusCode.UNKNOWN, f"failed to create CommitmentLevel from {number}")
