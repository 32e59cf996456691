"""The measurement of large answers: the blocks, the calls, and the figures."""

import asyncio
import contextlib
import threading
from collections.abc import Iterator

import httpx
import pytest

from bench.blocks import Caller, Row, at_once, filled, measured, of_chain, of_memory
from bench.constant import Connection
from bench.systems import UPSTREAM, System


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


def test_a_block_is_at_least_as_large_as_was_asked_for() -> None:
    """Real transfers, all in one slot, and final when the measurement begins."""
    with filled(30_000, 60_000) as (chain, slots):
        assert len(set(slots.values())) == 2
        for size, slot in slots.items():
            params = [slot, {"maxSupportedTransactionVersion": 0}]
            asked = {"jsonrpc": "2.0", "id": 1, "method": "getBlock", "params": params}
            assert size <= len(httpx.post(chain.url, json=asked, timeout=30).content) < 2 * size


def test_a_ratio_is_of_whole_calls() -> None:
    """The target is of the time that the client sees."""
    row = Row("node", 1, 10.0, 15.0, 1.0, 30.0)
    assert (row.ratio, row.other_ratio) == (1.5, 3.0)
    assert Row("node", 1, 10.0, 15.0, 1.0).other_ratio is None


def test_every_request_differs_until_the_cache_is_measured() -> None:
    """Else the cache would be measured in place of the node."""
    for ask in (of_chain(5), of_memory(100_000)):
        assert len({str(ask(number)) for number in range(23)}) == 23


def test_only_a_block_counts() -> None:
    """An error must end the measurement, not make it look fast."""
    with constant_node() as node:
        caller = Caller(node.url, node.api_key)
        took_ms, size = caller.block([100_000])
        assert took_ms > 0
        assert (size, caller.last.get("x-cache")) == (100_000, None)
        with pytest.raises(ChildProcessError, match="Invalid request"):
            caller.block([])
        caller.close()
        row = measured("node", node.url, [node, node], 3, of_memory(100_000))
        assert row.size_bytes == 100_005
        assert row.other_ms is not None and min(row.direct_ms, row.gateway_ms, row.cached_ms, row.other_ms) > 0
        assert at_once(node, 3, [100_000]).total() == 3
