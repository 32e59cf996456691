"""The generators: every call counted, every answer waited for, and their output read."""

import asyncio

import pytest

from bench.constant import Connection, answer_to
from bench.load import LoadFailed, generate, parse, request_bytes

_WRK = """Running 8s test @ http://127.0.0.1:9555/
  1 threads and 64 connections
  Non-2xx or 3xx responses: 3
figures {"requests":1003,"duration_us":8000000,"p50_us":1500.0,"p99_us":9000.5,"max_us":1.0,\
"refused":3,"connect":1,"read":2,"write":0,"timeout":4}
"""


def test_wrk_figures_count_refusals_and_broken_connections_as_errors() -> None:
    """wrk counts a refused call among its requests, and a broken connection not."""
    found = parse(_WRK, "wrk", 64)
    assert (found.answered, found.errors, found.connections, found.tool) == (1000, 10, 64, "wrk")
    assert (found.per_second, found.latency_p50_ms, found.latency_p99_ms) == (125, 1.5, 9.0005)


def test_output_without_figures_is_a_failure_with_the_output() -> None:
    """Never a row of zeros for a generator that did not run."""
    with pytest.raises(LoadFailed, match="unable to connect"):
        parse("unable to connect to 127.0.0.1:1 Connection refused\n", "wrk", 1)


async def _constant() -> tuple[asyncio.Server, str]:
    server = await asyncio.get_running_loop().create_server(Connection, "127.0.0.1", 0)
    return server, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"


async def test_counted_calls_are_all_answered() -> None:
    """Exactly so many calls, over fewer or more connections than calls; one latency each."""
    server, url = await _constant()
    for connections, calls in ((4, 50), (8, 3), (1, 1)):
        tally = await generate(url, request_bytes(url), connections, 0, calls)
        assert (tally.answered, tally.refused, tally.lost) == (calls, 0, 0)
        assert len(tally.latencies_us) == calls
    server.close()


async def test_an_answer_that_is_no_result_is_a_refusal() -> None:
    """A good status with a JSON-RPC error in it was not served."""

    class Refusing(Connection):
        def on_message_complete(self) -> None:
            body = answer_to(b"not JSON")
            self._transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))

    server = await asyncio.get_running_loop().create_server(Refusing, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    tally = await generate(url, request_bytes(url), 2, 0, 10)
    assert (tally.answered, tally.refused, tally.lost) == (0, 10, 0)
    server.close()


async def test_calls_on_a_connection_that_breaks_are_lost_not_answered() -> None:
    """What was sent and never answered is counted as such, and the rest of the calls go on over a new connection."""
    answered = 0

    class Breaking(Connection):
        def on_message_complete(self) -> None:
            nonlocal answered
            answered += 1
            if answered == 5:
                self._transport.close()
            else:
                super().on_message_complete()

    server = await asyncio.get_running_loop().create_server(Breaking, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    tally = await generate(url, request_bytes(url), 2, 0, 20)
    assert (tally.answered, tally.refused, tally.lost) == (19, 0, 1)
    server.close()


def test_the_request_carries_key_and_length() -> None:
    """Built once and sent again and again."""
    request = request_bytes("http://127.0.0.1:80/", "secret", "/mcp")
    head, _, body = request.partition(b"\r\n\r\n")
    assert head.startswith(b"POST /mcp ") and b"X-Api-Key: secret" in head
    assert b"Content-Length: %d" % len(body) in head
