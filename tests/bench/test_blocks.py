"""The measurement of large answers: what it takes for an answer, and what it makes of the figures."""

import asyncio
import contextlib
import threading
from collections.abc import Iterator

import pytest

from bench.blocks import RATIO_MAX, Caller, Row, at_once, median_ms
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
    assert Row(1, 10.0, 15.0, 1.0).ratio == RATIO_MAX


def test_only_a_whole_block_counts() -> None:
    """An error or half a block must end the measurement, not flatter it."""
    with constant_node() as node:
        caller = Caller(node)
        took_ms, mark = caller.block(100_000)
        assert took_ms > 0
        assert mark == ""
        with pytest.raises(ValueError, match="were expected"):
            caller.block(5)
        caller.close()
        assert median_ms(node, 100_000, 3, 1) > 0
        assert at_once(node, 3, 100_000).total() == 3
