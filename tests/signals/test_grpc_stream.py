"""The call as a peer meets it: real servers of grpcio, and an HTTP/2 peer in memory that cuts its bytes anywhere."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

import grpc
import h2.connection
import h2.events
import pytest
from h2.config import H2Configuration
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.signals import grpc_stream
from actors.signals.grpc_stream import CallFailed, GrpcStream, open_stream

PATH = "/test.Echo/Talk"
LONG = 3 * grpc_stream.WINDOW_BYTES
WAIT_SECONDS = 60.0


class Peer:
    """An HTTP/2 server without a socket. It is the transport of a call, and hears what that writes."""

    def __init__(self) -> None:
        self.http = h2.connection.H2Connection(H2Configuration(client_side=False))
        self.events: list[h2.events.Event] = []
        self.closed = False
        self.call = GrpcStream(
            [(":method", "POST"), (":path", PATH), (":scheme", "http"), (":authority", "x")], 1 << 20
        )
        self.http.initiate_connection()
        self.call.connection_made(self)  # type: ignore[arg-type]

    def write(self, data: bytes) -> None:
        self.events += self.http.receive_data(data)

    def close(self) -> None:
        self.closed = True

    def respond(self) -> None:
        self.http.send_headers(1, [(":status", "200"), ("content-type", "application/grpc")])

    def end(self, *trailers: tuple[str, str]) -> None:
        self.http.send_headers(1, trailers, end_stream=True)

    def pass_on(self, cuts: Sequence[int] = ()) -> None:
        """Deliver what the peer has to say, in pieces of these sizes, then the rest."""
        data = self.http.data_to_send()
        for size in cuts:
            self.call.data_received(data[:size])
            data = data[size:]
        self.call.data_received(data)

    async def all(self) -> tuple[list[bytes], CallFailed]:
        found = list[bytes]()
        try:
            while True:
                found += await self.call.read()
        except CallFailed as failed:
            return found, failed


def framed(messages: Sequence[bytes]) -> bytes:
    return b"".join(b"\0" + len(one).to_bytes(4, "big") + one for one in messages)


@given(
    messages=st.lists(st.binary(max_size=300), max_size=20),
    frames=st.lists(st.integers(0, 900), max_size=30),
    padded=st.integers(0, 30),
    cuts=st.lists(st.integers(0, 700), max_size=40),
)
@settings(max_examples=200)
async def test_however_bytes_are_cut_the_messages_are_the_same(
    messages: list[bytes], frames: list[int], padded: int, cuts: list[int]
) -> None:
    """By messages, by frames, with padding, and by what a socket gives at once."""
    peer = Peer()
    peer.respond()
    body = framed(messages)
    for number, size in enumerate([*frames, len(body)]):
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
        ([("other", "x")], grpc.StatusCode.UNKNOWN, "the peer ended the call without a status"),
    ],
)
async def test_the_status_of_the_end_is_told_after_the_messages(
    trailers: list[tuple[str, str]], code: grpc.StatusCode, text: str
) -> None:
    peer = Peer()
    peer.respond()
    peer.http.send_data(1, framed([b"one"]))
    peer.end(*trailers)
    peer.pass_on()
    found, end = await peer.all()
    assert found == [b"one"] and (end.code, end.text) == (code, text) and peer.closed


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
        case "goodbye":
            peer.http.close_connection()
        case "compressed":
            peer.http.send_data(1, b"\1\0\0\0\1x")
        case "too long":
            peer.http.send_data(1, b"\0" + (1 << 21).to_bytes(4, "big"))
    peer.pass_on()
    match how:
        case "lost":
            peer.call.connection_lost(ConnectionResetError())
        case "garbage":
            peer.call.data_received(b"\0\0\4\3\0\0\0\0\0\0\0\0\0")
        case "huge frame":
            peer.call.data_received(b"\xff\0\0\0\0\0\0\0\1")
    found, end = await peer.all()
    assert not found and end.code is not grpc.StatusCode.OK
    peer.call.write(b"too late")
    peer.call.data_received(b"nonsense")
    with pytest.raises(CallFailed):
        await peer.call.read()


async def test_a_peer_may_send_no_more_than_the_window_until_it_is_read() -> None:
    peer = Peer()
    peer.respond()
    peer.pass_on()
    room, part = peer.http.local_flow_control_window(1), framed([bytes(16_000)])
    assert room == grpc_stream.WINDOW_BYTES
    while peer.http.local_flow_control_window(1) >= len(part):
        peer.http.send_data(1, part)
        peer.pass_on()
    left = peer.http.local_flow_control_window(1)
    assert left < len(part)
    assert len(await peer.call.read()) == room // len(part)
    assert peer.http.local_flow_control_window(1) == room


@contextlib.asynccontextmanager
async def serving(talk: Any) -> AsyncIterator[str]:
    server = grpc.aio.server(options=[("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)])
    handler = grpc.stream_stream_rpc_method_handler(talk)
    _, service, method = PATH.split("/")
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {method: handler}),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        await server.stop(0)


async def test_long_messages_go_both_ways() -> None:
    """Longer than the windows of both sides."""

    async def talk(requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        assert dict(context.invocation_metadata())["x-token"] == "secret"
        async for request in requests:
            yield request
            yield b"and " + request[:3]

    async with serving(talk) as url, asyncio.timeout(WAIT_SECONDS):
        call = await open_stream(url, PATH, {"x-token": "secret"}, LONG + 9)
        sent = [bytes([number % 251]) * length for number, length in enumerate((0, 1, LONG, 70_000))]
        found = list[bytes]()
        for message in sent:
            call.write(message)
        while len(found) < 2 * len(sent):
            found += await call.read()
        assert found[0::2] == sent and found[1::2] == [b"and " + message[:3] for message in sent]
        call.close()


async def test_nobody_who_listens_and_nobody_who_speaks_http_are_told() -> None:
    with pytest.raises(CallFailed, match="UNAVAILABLE: no connection"):
        await open_stream("http://127.0.0.1:1", PATH, {}, 1)

    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as server, asyncio.timeout(WAIT_SECONDS):
        port = server.sockets[0].getsockname()[1]
        call = await open_stream(f"http://127.0.0.1:{port}", PATH, {}, 1)
        with pytest.raises(CallFailed):
            await call.read()
