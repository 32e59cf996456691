"""What a client may begin at the server, and what it may send before anybody reads."""

import asyncio

import h2.errors
import h2.events
import h2.exceptions
import h2.settings
import pytest

from actors.grpc_http2 import connection as connection_module
from actors.grpc_http2 import frames, server_connection
from tests.grpc_http2.raw_peer import RawPeer, connected
from tests.grpc_http2.servers import SERVICE, Methods, framed, serving, until

ECHO, POUR, UPPER = (f"/{SERVICE}/{name}" for name in ("Echo", "Pour", "Upper"))
GONE = h2.events.ConnectionTerminated


@pytest.mark.parametrize(
    ("how", "status"),
    [
        ({"method": "GET"}, "405"),
        ({"content_type": "text/plain"}, "415"),
        ({f"x{number}": "" for number in range(server_connection.HEADERS_MAX)}, "431"),
    ],
    ids=["method", "type", "many headers"],
)
async def test_what_is_no_call_of_grpc_is_refused(how: dict[str, str], status: str) -> None:
    async with connected(Methods()) as peer:
        peer.call(1, ECHO, **how)
        (answer,) = await peer.until(h2.events.ResponseReceived)
        assert dict(answer.headers)[":status"] == status
        peer.call(3, UPPER)
        peer.http.send_data(3, framed(b"on"), end_stream=True)
        peer.flush()
        assert await peer.status(3) == (0, "")


async def test_calls_that_are_reset_at_once_leave_nothing() -> None:
    methods = Methods()
    async with connected(methods) as peer:
        for stream in range(1, 401, 2):
            peer.call(stream, ECHO)
            peer.http.reset_stream(stream)
        peer.call(401, ECHO, ends=True)
        assert await peer.status(401) == (0, "")
        await until(lambda: not methods.running)


@pytest.mark.threat(30)
async def test_a_client_that_ignores_its_window_is_closed() -> None:
    """Threat 30: a call holds one window and one message, whatever its client sends."""
    methods = Methods()
    methods.count = 1_000
    async with connected(methods) as peer:
        peer.call(1, POUR)  # Reads nothing, and waits for the client to read.
        peer.flush(*(frames.data_head(16_384, 1) + bytes(16_384) for _ in range(5)))
        (gone,) = await peer.until(GONE)
        assert gone.error_code == h2.errors.ErrorCodes.FLOW_CONTROL_ERROR


@pytest.mark.threat(35)
@pytest.mark.parametrize(("size", "is_taken"), [(15_000, True), (30_000, False)])
async def test_headers_are_as_large_as_the_front_lets_them_be(size: int, is_taken: bool) -> None:
    """Threat 35: a call of 1,700 headers took 10 ms, and as much again of the garbage collector."""
    async with connected(Methods()) as peer:
        peer.call(1, ECHO, *((f"x{number}", "v" * (size // 100)) for number in range(95)), ends=True)
        if is_taken:
            assert await peer.status(1) == (0, "")
        else:
            assert await peer.until(GONE)


def test_the_limits_are_those_that_are_documented() -> None:
    assert server_connection.CALLS_MAX == 1_000


async def test_a_length_that_the_client_has_told_is_held_against_its_data() -> None:
    """Some clients send a content-length; h2 compares it, so it has to see their data."""
    async with connected(Methods()) as peer:
        body = framed(b"told")
        peer.call(1, UPPER, content_length=str(len(body)))
        peer.http.send_data(1, body, end_stream=True)
        peer.flush()
        assert await peer.status(1) == (0, "") and peer.data(1) == framed(b"TOLD")
        peer.call(3, UPPER, content_length="3")
        peer.flush(frames.data_head(len(body), 3) + body)
        (gone,) = await peer.until(GONE)
        assert gone.error_code == h2.errors.ErrorCodes.PROTOCOL_ERROR


@pytest.mark.threat(30)
@pytest.mark.parametrize("pad_length", [None, 0, 200])
async def test_what_nobody_reads_is_granted_to_no_client(pad_length: int | None) -> None:
    """Threat 30, however the frames are made: padding goes through h2, and counts as well."""
    methods = Methods()
    methods.count = 1_000
    async with connected(methods) as peer:
        peer.call(1, POUR)
        sent = 0
        while (room := peer.http.local_flow_control_window(1)) > 300:
            peer.http.send_data(1, bytes(min(room - 201, 9_000)), pad_length=pad_length)
            peer.flush()
            sent += 1
            await asyncio.sleep(0.01)
        peer.http.ping(b"12345678")
        peer.flush()
        await peer.until(h2.events.PingAckReceived)
        assert sent < 20 and not [
            one for one in peer.events if isinstance(one, h2.events.WindowUpdated) and one.stream_id
        ]


async def test_padded_requests_go_on_for_ever() -> None:
    """What h2 has counted is granted again by h2, of the call and of the connection."""
    async with connected(Methods()) as peer:
        peer.call(1, ECHO)
        body = framed(bytes(5_000))
        for number in range(40):
            while peer.http.local_flow_control_window(1) < 6_000:
                await peer.until(object, len(peer.events) + 1)
            peer.http.send_data(1, body, pad_length=9 if number % 2 else None)
            for stream in (None, 1):
                peer.http.increment_flow_control_window(5_005, stream)
            peer.flush()
        peer.http.end_stream(1)
        peer.flush()
        assert await peer.status(1) == (0, "") and peer.data(1) == body * 40


async def test_a_connection_that_takes_nothing_is_cut_off_when_it_has_to_close(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its calls end at once, though what was written before never leaves."""
    monkeypatch.setattr(connection_module, "_CLOSE_SECONDS", 0.2)
    methods = Methods()
    methods.count, methods.size = 1_000, 60_000
    async with serving(methods) as (server_of, port):
        peer = await RawPeer.connect(port, 1 << 30)
        peer.http.increment_flow_control_window(1 << 30)
        peer.call(1, POUR, ends=True)
        await until(lambda: methods.poured > 10)
        peer.writer.transport.pause_reading()
        await asyncio.sleep(0.3)
        assert methods.running == 1
        peer.flush(frames.HEAD.pack(0, 4, frames.WINDOW_UPDATE, 0, 0) + bytes(4))
        await until(lambda: not methods.running and not server_of._connections)
        peer.close()
