"""One signed request, sent hundreds of times while its owner is killed and Redis stands still: it passes once.

Rules: money rule 11; threats 2 and 55; design, "What must survive what".
"""

import asyncio
import contextlib
import os
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import psutil
import pytest
import redis

from bench.product import Product
from tests.cluster.test_faults import VICTIMS, assert_serves_again, eventually, is_well
from tests.customers import Customer, request, rpc_body

pytestmark = pytest.mark.kills

_BODY = rpc_body("getSlot")
_REQUESTS, _SPREAD_SECONDS = 200, 1.0
_STOPPED_SECONDS = 1.5
_BACK_SECONDS = 90.0


async def send_all(url: str, headers: dict[str, str], amount: int, spread_seconds: float) -> list[tuple[int, Any]]:
    """The same request so many times, all in flight together, begun over so many seconds."""

    async def send(session: aiohttp.ClientSession, number: int) -> tuple[int, Any]:
        await asyncio.sleep(spread_seconds * number / amount)
        async with session.post(url, data=_BODY, headers=headers) as answer:
            return answer.status, await answer.json(content_type=None)

    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(total=90)
    ) as session:
        return list(await asyncio.gather(*(send(session, number) for number in range(amount))))


@contextlib.asynccontextmanager
async def trouble(product: Product, faults: str) -> AsyncIterator[None]:
    """Before the first request, or among the first ones. Redis goes on after the owner was killed, so what was on its
    way to it still lands."""
    store, owner = psutil.Process(product.running("redis-server")[0]), product.running(VICTIMS["shard"])[0]
    if "redis" in faults:
        store.suspend()

    async def go_on() -> None:
        await asyncio.sleep(_SPREAD_SECONDS / 20)
        if "owner" in faults:
            os.kill(owner, signal.SIGKILL)
        await asyncio.sleep(_STOPPED_SECONDS)
        store.resume()

    going_on = asyncio.create_task(go_on())
    try:
        yield
    finally:
        await going_on


@pytest.mark.parametrize("faults", ["owner", "redis", "owner and redis"])
async def test_one_signed_request_passes_once(product: Product, heavy_customer: Customer, faults: str) -> None:
    """At most one answer with 200; the others 403 NONCE_REUSED or 503; charged as often as answered, and afterwards
    fresh signatures are served."""
    assert eventually(lambda: is_well(product), _BACK_SECONDS)
    url, balance = f"{product.http_url}/", heavy_customer.balance
    # Two requests: one whose nonce is used before the trouble begins, and one that meets it all the way.
    used, fresh = (heavy_customer.wallet.headers("POST", "/", _BODY) for _ in range(2))
    assert [status for status, _ in await send_all(url, used, 1, 0)] == [200]
    async with trouble(product, faults):
        answered = await asyncio.gather(
            send_all(url, fresh, _REQUESTS, _SPREAD_SECONDS), send_all(url, used, _REQUESTS // 4, 3 * _SPREAD_SECONDS)
        )
    deadline = time.monotonic() + _BACK_SECONDS
    while time.monotonic() < deadline:
        again = await send_all(url, fresh, 10, 0)
        answered[0] += again
        if {status for status, _ in again} == {403}:
            break
    passed = []
    for answers in answered:
        statuses = Counter(status for status, _ in answers)
        assert set(statuses) <= {200, 403, 503}, statuses
        assert {body["error"]["code"] for status, body in answers if status == 403} == {"NONCE_REUSED"}
        passed.append(statuses[200])
    assert passed[0] <= 1, Counter(status for status, _ in answered[0])
    assert passed[1] == 0, "its nonce was used before"
    assert eventually(lambda: balance - heavy_customer.balance == 1 + passed[0], _BACK_SECONDS)
    assert_serves_again(product, heavy_customer)
    assert await signed_call(heavy_customer) == 200


async def test_redis_emptied_and_its_owner_killed_admit_nothing_twice(
    product: Product, heavy_customer: Customer
) -> None:
    """Inside the 130 seconds. Until the used request is no longer good, signed ones are refused with 503, which says
    when to come again; API keys go on."""
    assert eventually(lambda: is_well(product), _BACK_SECONDS)
    url = f"{product.http_url}/"
    used = heavy_customer.wallet.headers("POST", "/", _BODY)
    assert [status for status, _ in await send_all(url, used, 1, 0)] == [200]
    store, owner = redis_of(product), product.running(VICTIMS["shard"])[0]
    store.flushall()
    os.kill(owner, signal.SIGKILL)
    try:
        refused = [*await send_all(url, used, 100, 1.0)]
        assert_serves_again(product, heavy_customer)
        refused += await send_all(url, used, 50, 0)
        assert Counter(status for status, _ in refused) == {503: 150}
        assert await signed_call(heavy_customer) == 503
    finally:
        # The other tests here do not wait for 90 seconds: as if nothing had been lost.
        for record in store.scan_iter("identity:nonces:*:owner"):
            store.hset(record, "lost", 0)
        os.kill(product.running(VICTIMS["shard"])[0], signal.SIGKILL)
    assert_serves_again(product, heavy_customer)
    assert await signed_call(heavy_customer) == 200


async def signed_call(customer: Customer) -> int:
    """The status of one call under a fresh signature; a refusal says when to come again."""
    url, headers = f"{customer.product.http_url}/", customer.wallet.headers("POST", "/", _BODY)
    answer = await asyncio.to_thread(request, url, headers, _BODY)
    assert answer.status == 200 or answer.headers["Retry-After"] is not None, answer
    return answer.status


def redis_of(product: Product) -> redis.Redis:
    found = psutil.Process(product.running("redis-server")[0]).net_connections("unix")
    (path,) = {connection.laddr for connection in found if connection.laddr}
    return redis.Redis(unix_socket_path=str(path))
