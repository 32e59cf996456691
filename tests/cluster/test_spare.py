"""A killed replica is no outage: a default run has another one, which the front asks at once.

Rules: SECURITY.md (a process that dies takes no other with it); actors/launch/README.md, "What survives which failure".
"""

import asyncio
import csv
import os
import signal
import urllib.request
from collections import Counter
from collections.abc import Iterator

import aiohttp
import psutil
import pytest

from bench.product import Product
from bench.systems import started
from tests.cluster.load import Seen, one_call
from tests.cluster.test_faults import eventually
from tests.customers import Customer

pytestmark = pytest.mark.kills

_PER_SECOND = 50
_RETRY_SECONDS = 0.1  # The sockets of a killed process close in turn: at once, the front may take another one of them.
_KILLS = 3
_SERVERS = 2
_BACK_SECONDS = 90.0


# With LONG_TESTS=1 also with two that work, each in a product of its own.
_RUNS = {"a replica and its spare": None} | ({"two that work": "2"} if "LONG_TESTS" in os.environ else {})


@pytest.fixture(scope="module", params=_RUNS.values(), ids=_RUNS)
def run(request: pytest.FixtureRequest) -> Iterator[Product]:
    """A run of its own: with default settings, and with two replicas that both get calls."""
    replicas = {} if request.param is None else {"LEDGER_GATEWAY__REPLICAS": request.param}
    with started(replicas) as product:
        yield product


def servers_up(product: Product) -> int:
    """Return how many replicas the front takes for alive."""
    url = f"http://127.0.0.1:{product.ports.first + 1}/stats;csv"
    with urllib.request.urlopen(url, timeout=10) as answer:
        rows = list(csv.DictReader(answer.read().decode().removeprefix("# ").splitlines()))
    servers = [
        row for row in rows if row["pxname"].startswith("http-") and row["svname"] not in ("BACKEND", "FRONTEND")
    ]
    return sum(row["status"].startswith("UP") for row in servers) if len(servers) == _SERVERS else 0


def busiest(product: Product, before: dict[int, float]) -> int:
    """Return the replica that has worked most since then: of a replica and its spare, the one that gets the calls."""
    now = processor_seconds(product)
    return max(now, key=lambda pid: now[pid] - before.get(pid, 0.0))


def processor_seconds(product: Product) -> dict[int, float]:
    return {pid: sum(psutil.Process(pid).cpu_times()[:2]) for pid in product.running("ray::ServeReplica")}


async def retrying_once(customer: Customer, stop: asyncio.Event) -> Counter[str]:
    """So many calls a second. What became of each: `answered`, `answered again` at its second try, or `failed`."""
    url, headers, found = f"{customer.product.http_url}/", customer.key_headers, Counter[str]()

    async def call(session: aiohttp.ClientSession) -> None:
        for outcome in ("answered", "answered again"):
            if await one_call(session, url, headers, Seen()):
                found[outcome] += 1
                return
            await asyncio.sleep(_RETRY_SECONDS)
        found["failed"] += 1

    connector, time_limit = aiohttp.TCPConnector(limit=0), aiohttp.ClientTimeout(total=30)
    async with aiohttp.ClientSession(connector=connector, timeout=time_limit) as session, asyncio.TaskGroup() as group:
        while not stop.is_set():
            group.create_task(call(session))
            await asyncio.sleep(1 / _PER_SECOND)
    return found


async def test_a_killed_replica_fails_no_call_of_a_client_that_retries_once(run: Product) -> None:
    """kill -9, several times, of the replica that works, each time under 50 calls a second: only calls that the killed
    replica had in hand break off, and their second try is answered. The ledger follows."""
    customer = Customer(run)
    customer.grant(100_000)
    for _ in range(_KILLS):
        assert eventually(lambda: servers_up(run) == _SERVERS, _BACK_SECONDS), "the killed one was not replaced"
        before, stop = processor_seconds(run), asyncio.Event()
        load = asyncio.create_task(retrying_once(customer, stop))
        await asyncio.sleep(2)
        os.kill(busiest(run, before), signal.SIGKILL)
        # Until Serve has noticed, has replaced it, and has given HAProxy two new configurations.
        await asyncio.sleep(1)
        assert await asyncio.to_thread(eventually, lambda: servers_up(run) == _SERVERS, _BACK_SECONDS)
        stop.set()
        found = await load
        assert found["failed"] == 0, found
        assert found["answered"] > _PER_SECOND, found
    audit = run.audit()
    assert audit.returncode == 0, audit.stdout + audit.stderr
