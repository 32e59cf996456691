"""The Python generator: every call counted, every answer waited for."""

import asyncio

from bench.constant import Connection, answer_to
from bench.generator import generate, percentile, request_bytes


async def _constant() -> tuple[asyncio.Server, str]:
    server = await asyncio.get_running_loop().create_server(Connection, "127.0.0.1", 0)
    return server, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"


async def test_counted_calls_are_all_answered() -> None:
    """Exactly so many calls, over fewer or more connections than calls; one latency each."""
    server, url = await _constant()
    for connections, calls in ((4, 50), (8, 3), (1, 1)):
        tally = await generate(url, "key", connections, 0, calls)
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
    tally = await generate(url, "key", 2, 0, 10)
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
    tally = await generate(url, "key", 2, 0, 20)
    assert (tally.answered, tally.refused, tally.lost) == (19, 0, 1)
    server.close()


def test_percentiles_by_nearest_rank() -> None:
    """Of few values, and of none."""
    values = [float(value) for value in range(1, 101)]
    assert (percentile(values, 50), percentile(values, 99)) == (51.0, 100.0)
    assert percentile([], 50) == 0.0
    assert percentile([7.0], 99) == 7.0


def test_the_request_carries_key_and_length() -> None:
    """Built once and sent again and again."""
    request = request_bytes("http://127.0.0.1:80/", "secret")
    head, _, body = request.partition(b"\r\n\r\n")
    assert b"X-Api-Key: secret" in head
    assert b"Content-Length: %d" % len(body) in head
