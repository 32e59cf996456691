"""The number of replicas follows their own load, and no call fails while it does.

Rules: design, "Measured facts"; actors/launch/README.md, "Replicas that follow their load". A run of its own, with
short delays. With LONG_TESTS=1, as it takes more than a minute.
"""

import asyncio
import os
from collections import Counter
from collections.abc import Iterator

import pytest

from bench.product import Product
from bench.systems import started
from tests.cluster.load import Seen, hammer, steady
from tests.cluster.test_faults import eventually
from tests.customers import Customer

_CREDITS, _SECONDS = 10_000_000, 120.0

pytestmark = [
    pytest.mark.kills,
    pytest.mark.timeout(300),
    pytest.mark.skipif("LONG_TESTS" not in os.environ, reason="takes minutes: set LONG_TESTS=1"),
]


@pytest.fixture
def run() -> Iterator[Product]:
    settings = {
        "LEDGER_GATEWAY__REPLICAS": "1",
        "LEDGER_GATEWAY__REPLICAS_MAX": "2",
        "LEDGER_GATEWAY__REPLICA_LOAD_PERCENT": "15",
        "LEDGER_GATEWAY__SCALE_UP_SECONDS": "1",
        "LEDGER_GATEWAY__SCALE_DOWN_SECONDS": "5",
    }
    with started(settings) as product:
        yield product


def replicas(product: Product) -> int:
    return len(product.running("ray::ServeReplica"))


async def called_while_replicas_follow(customer: Customer) -> tuple[Seen, Seen]:
    """A few calls a second all the time, and many until a second replica is there. Returns what became of both."""
    product, always, many = customer.product, asyncio.Event(), asyncio.Event()

    async def until(count: int) -> bool:
        return await asyncio.to_thread(eventually, lambda: replicas(product) == count, _SECONDS)

    calling = asyncio.create_task(steady(customer, 10, always))
    assert await until(1)
    loading = asyncio.create_task(hammer(customer, 16, many))
    assert await until(2), "the load asks for a second replica"
    await asyncio.sleep(5)  # The second replica takes calls, too.
    many.set()
    assert await until(1), "without the load there is one again"
    await asyncio.sleep(1)
    always.set()
    return await calling, await loading


def test_replicas_come_with_load_and_go_without_it(run: Product) -> None:
    """Every call of both is answered and charged once, also those of the replica that leaves."""
    customer = Customer(run)
    customer.grant(_CREDITS)
    customer.limits(100_000, 1_000)
    steadily, heavily = asyncio.run(called_while_replicas_follow(customer))
    both = Counter(steadily.kinds) + Counter(heavily.kinds)
    assert set(both) == {"200"}, both
    left = _CREDITS - steadily.answered - heavily.answered
    assert eventually(lambda: customer.balance == left, 30), (customer.balance, left)
    audit = run.audit()
    assert audit.returncode == 0, audit.stdout + audit.stderr
