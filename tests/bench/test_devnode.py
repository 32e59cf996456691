"""The measurement of the embedded chain: its client, its steps on short runs, and its targets."""

import itertools
import time
from collections.abc import Iterator

import pytest

from bench import devnode
from bench.chain import Chain
from bench.devnode import JITTER, MEMORY, READS, SENDS, TPU, Row, Slots, growth_percent, off_by_ms, targets
from bench.devnode_load import Caller, Pace, Payments, http_request, load, over_quic, reads, sends
from bench.figures import Load
from bench.load import LoadFailed, Tally
from bench.scenario import console


@pytest.fixture(scope="module")
def node() -> Iterator[Chain]:
    with devnode.devnode("--slot-ms", "100") as started:
        yield started


def test_every_send_is_another_transaction_and_lands(node: Chain) -> None:
    """Counted by signature, over several chunks."""
    seen = sends(node.url, 8, 300, 120, None, look_up=True)
    assert (seen["answered"], seen["errors"], seen["landed"]) == (300, 0, 300)
    assert 0 < seen["latency_p50_ms"] <= seen["latency_p99_ms"] and seen["seconds"] > 0


def test_reads_stop_at_their_deadline(node: Chain) -> None:
    seen = reads(node.url, 4, 0.3)
    assert seen["answered"] > 10 and seen["errors"] == 0 and 0.2 < seen["seconds"] < 5


async def test_a_rate_is_not_exceeded(node: Chain) -> None:
    """So many a second in all, whatever the number of connections."""
    tally = Tally(60, 0.0)
    took = await load(node.url, itertools.repeat(http_request(node.url, "getSlot")), 8, tally, Pace(200.0))
    assert tally.answered == 60 and took >= 0.25


async def test_transactions_over_quic_land(node: Chain) -> None:
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


def test_a_client_that_fails_is_heard() -> None:
    """Its own words, not a missing figure."""
    with devnode.client("reads", "http://127.0.0.1:9") as process, pytest.raises(LoadFailed, match="ended with 1"):
        devnode.seen_by(process)


def test_a_short_run_measures_everything() -> None:
    """Rates beside the baseline, memory and disk."""
    with console.capture() as shown:
        rows = devnode.rates((SENDS,), 0.5, 8)
        memory = devnode.memory(1_000)
    assert [row.system for row in rows] == ["baseline", "devnode"]
    assert all(row.load.answered and not row.load.errors and row.cpu_us_per_call for row in rows)
    assert rows[-1].landed == rows[-1].load.answered and rows[0].landed is None
    assert memory["landed"] == 1_000 and memory["MB on disk"] > 0
    assert "baseline, sendTransaction" in shown.get()


def test_slots_are_heard_as_the_node_opens_them() -> None:
    """In its own milliseconds, each once; nothing is listened to after the block."""
    with devnode.devnode("--slot-ms", "20") as node, Slots(node.ws_url) as slots:
        while len(slots.opened_ms) < 10:
            time.sleep(0.01)
    assert slots.opened_ms == sorted(slots.opened_ms)


def test_jitter_is_how_far_each_slot_is_off() -> None:
    """Early and late count alike, by the distance from one slot to the next."""
    assert off_by_ms([0, 400, 790, 1_260, 1_660], 400) == [0.0, 10.0, 70.0, 0.0]


def test_memory_is_flat_when_the_end_is_as_the_middle() -> None:
    """Growth before the windows are full does not count."""
    flat = (50, 80, 90, 99, 100, 101, 100, 102, 103, 104)
    assert growth_percent(flat) < 5 < growth_percent(range(100, 200, 10))
    assert growth_percent((100,)) == 0


def row(system: str, kind: str, answered: int, landed: int | None = None) -> Row:
    return Row(system, kind, Load("python", 64, 2.0, answered, 0, 1.0, 5.0), 100.0, landed)


def test_targets_are_of_the_chain_itself() -> None:
    """Of the chain and not of the baseline; a send that did not land spoils the rate; None: not measured."""
    good = {
        "rates": [row("devnode", READS, 6_000), row("devnode", SENDS, 8_000, 8_000)],
        JITTER: {"p99_ms": 49.0},
        MEMORY: {"growth percent": 4.9},
        TPU: {"landed": 1_000},
    }
    assert [target.met for target in targets(good)] == [True] * 6
    bad = {
        "rates": [row("baseline", READS, 9_000), row("devnode", READS, 5_999), row("devnode", SENDS, 8_000, 7_999)],
        JITTER: {"p99_ms": 70.0},
        MEMORY: {"growth percent": 9.0},
        TPU: {"landed": 999},
    }
    assert [target.met for target in targets(bad)] == [False, True, False, False, False, False]
    assert [target.met for target in targets({})] == [None] * 6
