"""A replica's part of signals: pages, hub and what closes them."""

import asyncio
from typing import Any

from pydantic import SecretStr
from redis.asyncio import Redis

from actors.clock import SystemClock
from actors.config import Config, StorageConfig
from actors.errors import Refusal
from actors.launch.assembly.signalling import assemble_signals
from actors.metering.meters import Meters
from actors.metering.standing_watch import StandingWatch
from actors.pages import Page, PageAnswer, PageRequest
from actors.signals.event_stream import SignalEventStream
from actors.signals.log import RedisSignalLog
from tests.gateway.doubles import REPLICA, OneAccount
from tests.gateway.test_wire import listening
from tests.gateway.world import a_world
from tests.signals.test_hub import World as SignalWorld
from tests.signals.test_log import put, signal


async def test_a_stream_that_leaves_less_than_the_minimum_is_refused_before_its_charge() -> None:
    """Interface, "Signal billing": a stream ends below 10 credits, so with 10 to 14 the 5 for connecting would buy
    nothing. The answer is the 402 of every call without credits, and free; with 15 the stream stays."""
    streams: list[SignalEventStream] = []  # Made once the accounts are there that it asks.

    async def answer(request: PageRequest) -> PageAnswer | Refusal:
        return await streams[0].answer(request)

    pages = (Page("GET", "/signals/stream", answer, is_limited=False),)
    hub = await SignalWorld().hub()
    async with a_world(pages=pages) as world, listening(world.door) as port:
        meters = Meters(world.accounts, world.clock, b"meteredg")
        watch = StandingWatch(world.accounts, spending=meters)
        streams.append(SignalEventStream(hub, meters, watch))
        for credits in (10, 14):
            poor = await world.customer(credits=credits)
            answer = await world.http.get("/signals/stream", headers={"x-api-key": poor.api_key})
            assert answer.status_code == 402 and answer.headers["x-credits-remaining"] == str(credits)
            error = answer.json()["error"]
            assert error["code"] == "INSUFFICIENT_CREDITS" and error["data"]["minimum_deposit_usdc"] == "0.01"
            assert "insufficient credits" in error["message"] and "10 credits" in error["message"]
            assert await world.debits(poor) == []
        enough = await world.customer(credits=15)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /signals/stream HTTP/1.1\r\nhost: a\r\nx-api-key: %b\r\n\r\n" % enough.api_key.encode())
        async with asyncio.timeout(10):
            assert (await reader.readuntil(b"retry: 1000")).startswith(b"HTTP/1.1 200")
        await watch.check()
        assert await world.debits(enough) == [("subscribeSignal", 5)] and streams[0]._streams.total() == 1
        writer.close()
        await meters.stop()


async def test_a_replica_serves_what_the_log_has(redis_url: str, postgres_url: str) -> None:
    """The pages are there, and read the log that the classifiers write."""
    client = Redis.from_url(redis_url)
    await client.flushall()
    await put(RedisSignalLog(client), [signal(1)], 0)
    config = Config(storage=StorageConfig(postgres_url=SecretStr(postgres_url), redis_url=SecretStr(redis_url)))
    placed: list[tuple[Any, ...]] = []

    def place(*arguments: Any) -> list[Any]:
        placed.append(arguments)
        return []

    clock, nobody = SystemClock(), OneAccount(0)
    meters, watch = Meters(nobody, clock, REPLICA), StandingWatch(nobody)  # type: ignore[arg-type]
    signals = await assemble_signals(config, client, clock, meters, watch, place)
    assert [page.endpoint.partition("/signals/")[2] for page in signals.pages] == ["recent", "stream", "history"]
    assert signals.pages[0].minute_max == 300
    assert [page.is_public for page in signals.pages] == [True, False, False]
    answer = await signals.pages[0].handler(PageRequest(None))
    assert isinstance(answer, PageAnswer) and isinstance(answer.body, bytes) and b'"M1"' in answer.body
    assert len(placed) == 1
    refusal = await signals.pages[1].handler(PageRequest(b"a" * 32))
    assert isinstance(refusal, Refusal)  # Without credits nothing can be charged, so nothing is delivered.
    for close in signals.closers:
        await close()
    await client.aclose()
    assert not [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
