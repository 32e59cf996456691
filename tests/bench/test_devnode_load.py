"""The Python client of the embedded chain: distinct transactions, exact counts, a rate that is kept."""

import itertools
import time
from collections.abc import Iterator

import pytest

from bench.devnode import System, devnode
from bench.devnode_load import Caller, Pace, Payments, http_request, load, over_quic, reads, sends
from bench.generator import Tally


@pytest.fixture(scope="module")
def node() -> Iterator[System]:
    with devnode("--slot-ms", "100") as started:
        yield started


def test_every_send_is_another_transaction_and_lands(node: System) -> None:
    """Counted by signature, over several chunks."""
    seen = sends(node.url, 8, 300, 120, None, look_up=True)
    assert (seen["answered"], seen["errors"], seen["landed"]) == (300, 0, 300)
    assert 0 < seen["latency_p50_ms"] <= seen["latency_p99_ms"] and seen["seconds"] > 0


def test_reads_stop_at_their_deadline(node: System) -> None:
    seen = reads(node.url, 4, 0.3)
    assert seen["answered"] > 10 and seen["errors"] == 0 and 0.2 < seen["seconds"] < 5


async def test_a_rate_is_not_exceeded(node: System) -> None:
    """So many a second in all, whatever the number of connections."""
    tally = Tally(60, 0.0)
    took = await load(node.url, itertools.repeat(http_request(node.url, "getSlot")), 8, tally, Pace(200.0))
    assert tally.answered == 60 and took >= 0.25


async def test_what_goes_over_quic_lands(node: System) -> None:
    """One connection, a stream each, with a certificate of its own."""
    caller = Caller(node.url)
    transactions = Payments(caller).make(20)
    address = caller.call("getClusterNodes")[0]["tpuQuic"]
    assert await over_quic(address, transactions, caller) == 20


def test_lost_time_is_not_made_up_for() -> None:
    """A client that was held up does not flood afterwards."""
    pace = Pace(1_000.0)
    assert pace.wait_seconds() == 0.0
    time.sleep(0.2)
    burst = [pace.wait_seconds() for _ in range(100)]
    assert burst[-1] > 0.03
    assert Pace(None).wait_seconds() == 0.0
