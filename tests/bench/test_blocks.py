"""The measurement of large answers: what it takes for an answer, and what it makes of the figures."""

import asyncio
import contextlib
import threading
from collections.abc import Iterator

import pytest

from bench.blocks import RATIO_MAX, Caller, Row, at_once, median_ms, of_chain, of_memory
from bench.constant import Connection
from bench.figures import UPSTREAM
from bench.systems import System


@contextlib.contextmanager
def constant_node() -> Iterator[System]:
    """The constant node in a thread of its own: the measurement blocks."""
    loop = asyncio.new_event_loop()
    server = loop.run_until_complete(loop.create_server(Connection, "127.0.0.1", 0))
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    port = server.sockets[0].getsockname()[1]
    try:
        yield System(UPSTREAM, f"http://127.0.0.1:{port}/", "key", lambda: ())
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        server.close()
        loop.run_until_complete(server.wait_closed())
        loop.close()


def test_a_ratio_is_of_whole_calls() -> None:
    """The target is of the time that the client sees."""
    assert Row("node", 1, 10.0, 15.0, 1.0).ratio == RATIO_MAX


def test_every_question_is_another_until_it_shall_be_kept() -> None:
    """Else the cache would be measured where the way is meant."""
    for ask in (of_chain(5), of_memory(100_000)):
        assert len({str(ask(number)) for number in range(23)}) == 23


def test_only_a_block_counts() -> None:
    """An error must end the measurement, not flatter it."""
    with constant_node() as node:
        caller = Caller(node.url, node.api_key)
        took_ms, size, mark = caller.block([100_000])
        assert took_ms > 0
        assert (size, mark) == (100_000, "")
        with pytest.raises(ValueError, match="HTTP 200"):
            caller.block([])
        caller.close()
        assert median_ms(node.url, node.api_key, 3, of_memory(100_000))[1] == 100_005
        assert at_once(node, 3, [100_000]).total() == 3
