"""The codes and texts with which a Yellowstone stream or call ends, where this service itself ends it.

Implements: texts that say what the user must do, as clients show little besides; Yellowstone's own texts where clients
match on them. Values only. Pure. Not here: refusals of an account (gateway/doors/grpc_status.py), and what the node
itself answers, which is passed on.
"""

import msgspec

# Numbers of gRPC's status codes; grpc.StatusCode is not imported, as this file is pure.
INVALID_ARGUMENT, DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED, OUT_OF_RANGE = 3, 4, 8, 11
INTERNAL, UNAVAILABLE, DATA_LOSS = 13, 14, 15


class StreamEnd(msgspec.Struct, frozen=True):
    """How a stream ends. code: the number of a gRPC status code."""

    code: int
    text: str
    resume_slot: int | None = None  # A next stream with this from_slot misses nothing.


SHUTTING_DOWN = StreamEnd(UNAVAILABLE, "server is shutting down try again later")
BROKEN = StreamEnd(INTERNAL, "the stream broke; the log of the gateway says why")
NOT_REACHED = StreamEnd(UNAVAILABLE, "the stream source cannot be reached at the moment; nothing is charged; try again")
NOT_RECORDED = StreamEnd(UNAVAILABLE, "the charge could not be recorded; subscribe again")
TOO_LATE = StreamEnd(DEADLINE_EXCEEDED, "the deadline of the call is over; nothing is charged; allow it more time")

TOO_MUCH_KEPT = StreamEnd(RESOURCE_EXHAUSTED, "too many updates came before the stream could begin; subscribe again")


def leaving(resume_slot: int | None) -> StreamEnd:
    """The process that serves the stream is replaced."""
    if resume_slot is None:
        return StreamEnd(UNAVAILABLE, "the service restarts; subscribe again")
    text = f"the service restarts; subscribe again with from_slot {resume_slot}, and leave out what you have"
    return StreamEnd(UNAVAILABLE, text, resume_slot)


def silent(seconds: float) -> StreamEnd:
    """The node took the stream and then sent nothing, not even a ping."""
    return StreamEnd(UNAVAILABLE, f"the stream source has sent nothing for {seconds:g} s; subscribe again")


def bad_filter(reason: str) -> StreamEnd:
    return StreamEnd(INVALID_ARGUMENT, f"failed to create filter: {reason}")


def undecodable(reason: str) -> StreamEnd:
    return StreamEnd(INTERNAL, f"failed to decode Protobuf message: {reason}")


def too_slow(last_slot: int | None, limit: str) -> StreamEnd:
    """The client read more slowly than updates came."""
    resume = f"; the last slot sent is {last_slot}: subscribe again with from_slot {last_slot}"
    resume = "" if last_slot is None else resume
    return StreamEnd(RESOURCE_EXHAUSTED, f"lagged to send an update: the client reads too slowly, {limit} wait{resume}")


def too_many_requests(most: int) -> StreamEnd:
    return StreamEnd(RESOURCE_EXHAUSTED, f"too many requests on this stream: more than {most} in a second")


def lost(first: int | None, reason: str) -> StreamEnd:
    """Updates were lost at the source, and cannot be had from it again."""
    since = "" if first is None else f" of the slots from {first} on"
    return StreamEnd(DATA_LOSS, f"updates{since} are lost: {reason}; subscribe again")


def too_old(from_slot: int, first: int) -> StreamEnd:
    """Yellowstone's text. first: the first slot that can be replayed."""
    return StreamEnd(OUT_OF_RANGE, f"broadcast from {from_slot} is not available, last available: {first}")


def replay_broke(slot: int) -> StreamEnd:
    """slot: of the last update that was sent."""
    return StreamEnd(UNAVAILABLE, f"the replay broke off at slot {slot}; subscribe again with from_slot {slot}")


def too_many_streams(most: int) -> StreamEnd:
    return StreamEnd(RESOURCE_EXHAUSTED, f"max subscription limit exceeded: {most} streams of an account at once")


def no_room(most: int) -> StreamEnd:
    return StreamEnd(UNAVAILABLE, f"{most} streams are open here, which is the most; try again")
