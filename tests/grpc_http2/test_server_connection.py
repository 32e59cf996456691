"""What a client may begin at the server, and what it may send before anybody reads."""

import h2.errors
import h2.events
import h2.exceptions
import h2.settings
import pytest

from actors.grpc_http2 import frames, server_connection
from tests.grpc_http2.raw_peer import connected
from tests.grpc_http2.servers import SERVICE, Methods, framed, until

ECHO, POUR, UPPER = (f"/{SERVICE}/{name}" for name in ("Echo", "Pour", "Upper"))
ENDED, RESET = h2.events.StreamEnded, h2.events.StreamReset
GONE = h2.events.ConnectionTerminated


@pytest.mark.parametrize(
    ("how", "status"),
    [({"method": "GET"}, "405"), ({"content_type": "text/plain"}, "415")],
    ids=["method", "type"],
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


def test_the_limits_are_those_that_are_documented() -> None:
    assert server_connection.CALLS_MAX == 1_000
