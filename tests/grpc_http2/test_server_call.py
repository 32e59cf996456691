"""What a call takes from its headers and messages, from clients that send odd ones."""

import h2.errors
import h2.events
import h2.exceptions
import h2.settings
import pytest

from tests.grpc_http2.raw_peer import connected
from tests.grpc_http2.servers import SERVICE, Methods

ECHO, POUR, UPPER = (f"/{SERVICE}/{name}" for name in ("Echo", "Pour", "Upper"))
GONE = h2.events.ConnectionTerminated


@pytest.mark.parametrize(
    ("how", "code", "says"),
    [
        ({"grpc_encoding": "zstd"}, 12, "gzip"),
        ({"grpc_timeout": "1m"}, 4, "deadline"),
        ({"grpc_timeout": "99999999H"}, 0, ""),  # Longer than a timer takes.
        ({"grpc_timeout": "soon"}, 0, ""),
        ({"x_bin": "!!!"}, 0, ""),
    ],
)
async def test_headers_of_grpc_are_read_with_care(how: dict[str, str], code: int, says: str) -> None:
    async with connected(Methods()) as peer:
        peer.call(1, ECHO, **how)
        if not code:
            peer.http.end_stream(1)
            peer.flush()
        found = await peer.status(1)
        assert found[0] == code and says in found[1]


@pytest.mark.parametrize(
    ("body", "says"),
    [(b"\1\0\0\0\1x", "grpc-encoding"), (b"\0\0\0\0\5ab", "not whole"), (b"\0\xff\xff\xff\xff", "")],
    ids=["compressed without a name", "cut off", "4 GiB"],
)
async def test_bad_messages_end_their_call_alone(body: bytes, says: str) -> None:
    methods = Methods()
    async with connected(methods) as peer:
        peer.call(1, ECHO)
        peer.http.send_data(1, body, end_stream=True)
        peer.flush()
        code, text = await peer.status(1)
        assert code in (8, 13) and says in text.replace("%20", " ")
        peer.call(3, ECHO, ends=True)
        assert await peer.status(3) == (0, "")
