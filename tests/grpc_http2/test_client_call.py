"""A call as its peer meets it: an HTTP/2 peer in memory that cuts its bytes anywhere."""

from collections.abc import Sequence

import grpc
import h2.connection
import h2.events
import pytest
from h2.config import H2Configuration
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.grpc_http2 import frames
from actors.grpc_http2.client import ClientConnection
from actors.grpc_http2.client_call import CallFailed
from tests.grpc_http2.servers import framed

WINDOW_BYTES = 1 << 20
_HEADERS = [(b":method", b"POST"), (b":path", b"/test.Echo/Talk"), (b":scheme", b"http"), (b":authority", b"x")]


class Peer:
    """An HTTP/2 server without a socket. It is the transport of a connection, and hears what that writes."""

    def __init__(self) -> None:
        self.http = h2.connection.H2Connection(H2Configuration(client_side=False))
        self.events: list[h2.events.Event] = []
        self.closed = False
        self.connection = ClientConnection(lambda _: None, 1 << 20, WINDOW_BYTES)
        self.http.initiate_connection()
        self.connection.connection_made(self)  # type: ignore[arg-type]
        self.connection.data_received(self.http.data_to_send())
        self.call = self.connection.begin(_HEADERS)

    def get_extra_info(self, name: str) -> None:
        del name

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def write(self, data: bytes) -> None:
        self.events += self.http.receive_data(data)

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True

    def respond(self) -> None:
        self.http.send_headers(1, [(":status", "200"), ("content-type", "application/grpc")])

    def end(self, *trailers: tuple[str, str | bytes]) -> None:
        self.http.send_headers(1, trailers, end_stream=True)

    def pass_on(self, cuts: Sequence[int] = ()) -> None:
        """Deliver what the peer has to say, in pieces of these sizes, then the rest."""
        data = self.http.data_to_send()
        for size in cuts:
            self.connection.data_received(data[:size])
            data = data[size:]
        self.connection.data_received(data)

    async def all(self) -> tuple[list[bytes], CallFailed]:
        found = list[bytes]()
        try:
            while True:
                found += await self.call.read()
        except CallFailed as failed:
            return found, failed


@given(
    messages=st.lists(st.binary(max_size=300), max_size=20),
    in_frames=st.lists(st.integers(0, 900), max_size=30),
    padded=st.integers(0, 30),
    cuts=st.lists(st.integers(0, 700), max_size=40),
)
@settings(max_examples=200)
async def test_however_bytes_are_cut_the_messages_are_the_same(
    messages: list[bytes], in_frames: list[int], padded: int, cuts: list[int]
) -> None:
    """By messages, by frames, with padding, and by what a socket gives at once."""
    peer = Peer()
    peer.respond()
    body = framed(*messages)
    for number, size in enumerate([*in_frames, len(body)]):
        peer.http.send_data(1, body[:size], pad_length=5 if number == padded else None)
        body = body[size:]
    peer.http.ping(b"12345678")
    peer.end(("grpc-status", "0"))
    peer.pass_on(cuts)
    found, end = await peer.all()
    assert found == messages and end.code is grpc.StatusCode.OK
    assert any(isinstance(event, h2.events.PingAckReceived) for event in peer.events) or peer.closed


@pytest.mark.parametrize(
    ("trailers", "code", "text"),
    [
        (
            [("grpc-status", "11"), ("grpc-message", "last%20available: 90")],
            grpc.StatusCode.OUT_OF_RANGE,
            "last available: 90",
        ),
        ([("grpc-status", "77")], grpc.StatusCode.UNKNOWN, ""),
        ([("grpc-status", "x")], grpc.StatusCode.UNKNOWN, ""),
        ([("grpc-status", "9" * 5_000)], grpc.StatusCode.UNKNOWN, ""),
        ([("grpc-status", "13"), ("grpc-message", b"caf\xe9")], grpc.StatusCode.INTERNAL, "caf\ufffd"),
        ([("other", "x")], grpc.StatusCode.UNKNOWN, "the peer ended the call without a status"),
    ],
)
async def test_the_status_of_the_end_is_told_after_the_messages(
    trailers: list[tuple[str, str | bytes]], code: grpc.StatusCode, text: str
) -> None:
    peer = Peer()
    peer.respond()
    peer.http.send_data(1, framed(b"one"))
    peer.end(*trailers)
    peer.pass_on()
    found, end = await peer.all()
    assert found == [b"one"] and (end.code, end.text) == (code, text)


@pytest.mark.parametrize("how", ["reset", "goodbye", "lost", "garbage", "http", "compressed", "too long", "huge frame"])
async def test_every_way_in_which_a_call_breaks_ends_it(how: str) -> None:
    """None may leave the reader waiting for ever."""
    peer = Peer()
    if how == "http":
        peer.http.send_headers(1, [(":status", "503")])
    else:
        peer.respond()
    match how:
        case "reset":
            peer.http.reset_stream(1, 2)
        case "compressed":
            peer.http.send_data(1, b"\1\0\0\0\1x")
        case "too long":
            peer.http.send_data(1, b"\0" + (1 << 21).to_bytes(4, "big"))
    peer.pass_on()
    match how:
        case "goodbye":
            peer.connection.data_received(frames.goaway(0))
        case "lost":
            peer.connection.connection_lost(ConnectionResetError())
        case "garbage":
            peer.connection.data_received(b"\0\0\4\3\0\0\0\0\0\0\0\0\0")
        case "huge frame":
            peer.connection.data_received(b"\xff\0\0\0\0\0\0\0\1")
    found, end = await peer.all()
    assert not found and end.code is not grpc.StatusCode.OK
    peer.call.write(b"too late")
    peer.connection.data_received(b"nonsense")
    with pytest.raises(CallFailed):
        await peer.call.read()


async def test_a_peer_may_send_no_more_than_the_window_until_it_is_read() -> None:
    peer = Peer()
    peer.respond()
    peer.pass_on()
    room, part = peer.http.local_flow_control_window(1), framed(bytes(16_000))
    assert room == WINDOW_BYTES
    while peer.http.local_flow_control_window(1) >= len(part):
        peer.http.send_data(1, part)
        peer.pass_on()
    left = peer.http.local_flow_control_window(1)
    assert left < len(part)
    assert len(await peer.call.read()) == room // len(part)
    assert peer.http.local_flow_control_window(1) == room


@pytest.mark.parametrize(
    ("headers", "code", "text"),
    [
        ([(":status", "502"), ("content-type", "text/html")], grpc.StatusCode.UNAVAILABLE, "HTTP status 502"),
        ([(":status", "401")], grpc.StatusCode.UNAUTHENTICATED, "HTTP status 401"),
        ([(":status", "404")], grpc.StatusCode.UNIMPLEMENTED, "HTTP status 404"),
        ([(":status", "302")], grpc.StatusCode.UNKNOWN, "HTTP status 302"),
        (
            [(":status", "200"), ("content-type", "text/html")],
            grpc.StatusCode.UNKNOWN,
            "the peer answers with text/html, not with gRPC",
        ),
    ],
)
async def test_an_answer_that_is_none_of_grpc_is_told_as_one(
    headers: list[tuple[str, str]], code: grpc.StatusCode, text: str
) -> None:
    """A page of a proxy is no message: its first bytes were taken for one that is compressed."""
    peer = Peer()
    peer.http.send_headers(1, headers)
    peer.http.send_data(1, b"<!DOCTYPE html>")
    peer.pass_on()
    found, end = await peer.all()
    assert not found and (end.code, end.text) == (code, text)
    assert not peer.connection.calls and not peer.closed


async def test_a_compressed_message_is_a_fault_of_the_peer() -> None:
    """Not a limit of whoever asked, as RESOURCE_EXHAUSTED would say."""
    peer = Peer()
    peer.respond()
    peer.http.send_data(1, b"\1\0\0\0\1x")
    peer.pass_on()
    assert (await peer.all())[1].code is grpc.StatusCode.INTERNAL


async def test_a_length_that_the_peer_has_told_does_not_break_the_connection() -> None:
    """h2 compares it with the data that passes through it."""
    peer, body = Peer(), framed(b"one")
    peer.http.send_headers(1, [(":status", "200"), ("content-length", str(len(body)))])
    peer.http.send_data(1, body, end_stream=True)
    peer.pass_on()
    found, end = await peer.all()
    assert found == [b"one"] and end.code is grpc.StatusCode.UNKNOWN and not peer.closed


@pytest.mark.parametrize("padded", [False, True])
async def test_data_of_a_call_that_has_ended_here_leaves_the_others_alone(padded: bool) -> None:
    """Its peer cannot know yet. Frames are as large as the peer was told that they may be."""
    peer = Peer()
    peer.respond()
    peer.pass_on()
    other = peer.connection.begin(_HEADERS)
    if not padded:
        peer.call.close()
    written = list[bytes]()
    peer.write = written.append  # type: ignore[method-assign, assignment]
    size = peer.http.max_outbound_frame_size
    assert size > 16_384
    for _ in range(2 * WINDOW_BYTES // size):
        raw = frames.HEAD.pack(size >> 8, size & 0xFF, frames.DATA, 8 if padded else 0, 1)
        peer.connection.data_received(raw + b"\5" + framed(bytes(size - 11)) + bytes(5))
        if padded:
            assert await peer.call.read() == [bytes(size - 11)]
    assert not peer.closed and not any(one[3:4] == b"\3" for one in written), "each frame was answered"
    peer.http.send_headers(3, [(":status", "200")])
    peer.http.send_data(3, framed(b"on"))
    peer.pass_on()
    assert await other.read() == [b"on"]


async def test_a_flood_of_empty_messages_leaves_the_loop_to_others() -> None:
    """A pass takes one frame of them, however few frames they are."""
    peer = Peer()
    peer.respond()
    peer.pass_on()
    size = peer.http.max_outbound_frame_size // 5 * 5
    frame = frames.data_head(size, 1) + bytes(size)
    peer.connection.data_received(frame * 10)
    found = await peer.call.read()
    assert len(found) == size // 5
    while len(found) < size * 2:
        found += await peer.call.read()
    assert found == [b""] * (size * 2)


async def test_a_peer_that_reads_no_answers_is_cut_off() -> None:
    """Answers to pings have no window, and were kept without an end."""
    peer = Peer()
    written = 0

    def write(data: bytes) -> None:
        nonlocal written
        written += len(data)

    peer.write = write  # type: ignore[method-assign]
    peer.get_write_buffer_size = lambda: written  # type: ignore[attr-defined]
    peer.connection.pause_writing()
    ping = frames.HEAD.pack(0, 8, 6, 0, 0) + b"12345678"
    for _ in range(10_000):
        peer.connection.data_received(ping * 10)
        if peer.closed:
            break
    assert peer.closed and written < 2 << 20


async def test_a_connection_that_is_asked_to_leave_before_it_is_made_closes_when_it_is_made() -> None:
    """A server that stops in the pass of the loop in which it accepts one raised, and did not stop."""
    peer = Peer()
    early = ClientConnection(lambda _: None, 1 << 20, WINDOW_BYTES)
    early.leave()
    early.connection_made(peer)  # type: ignore[arg-type]
    assert peer.closed
