"""A rolling deployment under load: streams are told, go on elsewhere, and miss nothing; calls notice nothing.

Rules: actors/launch/README.md, "A replica that leaves"; streams/README.md, "When a socket is lost"; streams/GRPC.md,
"Miss nothing". A run of its own with two replicas and a grace of 20 s. With LONG_TESTS=1, as it takes minutes.
"""

import asyncio
import os
from collections.abc import Iterator
from typing import Any

import pytest

from bench.product import Product
from bench.systems import started
from tests.cluster.conftest import rich_and_unlimited
from tests.cluster.machine_clients import Callers
from tests.customers import Customer
from tests.stream_checks.redeployment import redeploy
from tests.stream_checks.websocket_kills import disturbed
from tests.stream_checks.yellowstone_followers import ToldFollower
from tests.stream_checks.yellowstone_kill import Kill

_STREAMS, _CALLS_PER_SECOND, _GRACE_SECONDS = 100, 20, 20.0

pytestmark = [
    pytest.mark.kills,
    pytest.mark.timeout(600),
    pytest.mark.skipif("LONG_TESTS" not in os.environ, reason="takes minutes: set LONG_TESTS=1"),
]


@pytest.fixture(scope="module")
def run() -> Iterator[Product]:
    with started({"LEDGER_GATEWAY__REPLICAS": "2"}) as product:
        yield product


async def _while_calls_go_on(product: Product, customer: Customer, work: Any) -> tuple[Any, Callers]:
    callers = Callers([product.http_url], customer.api_key, _CALLS_PER_SECOND)
    calling = asyncio.create_task(callers.run())
    try:
        return await work, callers
    finally:
        callers.stop()
        await calling


def _balance(product: Product, customer: Customer) -> int:
    return int(product.account(customer.api_key)["balance"])


def test_websockets_are_closed_with_1012_and_go_on(run: Product) -> None:
    """Signals by their cursor, logs and accounts by what streams/README.md says: nothing missed and nothing twice; the
    ledger has what was delivered; and of calls that are made once more none fails."""
    asyncio.run(redeploy(run, _GRACE_SECONDS))  # So that the replicas that leave have this grace.
    payers, caller = [rich_and_unlimited(run) for _ in range(4)], rich_and_unlimited(run)
    before = _balance(run, caller)

    async def disturb() -> None:
        print(f"replaced in {await redeploy(run, _GRACE_SECONDS):.0f} s")

    told, callers = asyncio.run(_while_calls_go_on(run, caller, disturbed(run, payers, _STREAMS, disturb)))
    print(told, callers.record)
    assert told["lost their connection"] == _STREAMS
    assert set(told["closed with"]) == {1012} and told["closed with"][1012] == _STREAMS
    assert callers.record.failed == [], str(callers.record)
    assert before - _balance(run, caller) == callers.record.answered, str(callers.record)
    # A replay is free; of notifications, those that make no whole credit are, for each replica and name.
    unposted, replayed = told["credits unposted, of all"], told["credits replayed free, at most"]
    assert told["credits unposted, least of an account"] >= -2 and unposted <= replayed + 4 * len(payers), told


def test_grpc_streams_end_with_a_slot_and_go_on_from_it(run: Product) -> None:
    """Against the chain itself: no update missing, none that never was, none twice on a stream."""
    key, caller = rich_and_unlimited(run).api_key, rich_and_unlimited(run)

    async def disturb() -> None:
        print(f"replaced in {await redeploy(run, _GRACE_SECONDS):.0f} s")

    followers: list[ToldFollower] = []

    def follower(*arguments: Any) -> ToldFollower:
        followers.append(ToldFollower(*arguments))
        return followers[-1]

    kill = Kill(run, key, _STREAMS, disturb, follower)
    told, callers = asyncio.run(_while_calls_go_on(run, caller, kill._run()))
    print(told, callers.record)
    assert (told.broken, told.missing, told.extra, told.repeated) == (_STREAMS, 0, 0, 0), told
    assert sum(count for end, count in told.ends.items() if end.startswith("UNAVAILABLE: the service restarts")) == (
        _STREAMS
    ), told.ends
    assert len(followers) == _STREAMS and all(one.resumed is not None and not one.from_before for one in followers)
    assert told.credits == told.told, "each stream that brought an update, and no other, cost its credit"
    assert callers.record.failed == [], str(callers.record)


def test_the_ledger_is_whole_afterwards(run: Product) -> None:
    done = run.audit()
    assert done.returncode == 0, done.stdout + done.stderr
