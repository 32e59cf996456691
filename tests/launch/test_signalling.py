"""A replica's part of signals: pages, hub and what closes them."""

import asyncio
from typing import Any

from pydantic import SecretStr
from redis.asyncio import Redis

from actors.clock import SystemClock
from actors.config import Config, StorageConfig
from actors.errors import Refusal
from actors.launch.signalling import assemble_signals
from actors.pages import PageAnswer, PageRequest
from actors.signals.log import RedisSignalLog
from tests.signals.test_log import signal


async def test_a_replica_serves_what_the_log_has(redis_url: str, postgres_url: str) -> None:
    """The pages are there, and read the log that the classifiers write."""
    client = Redis.from_url(redis_url)
    await client.flushall()
    await RedisSignalLog(client).append("p", 0, 0, [signal(1)])
    config = Config(storage=StorageConfig(postgres_url=SecretStr(postgres_url), redis_url=SecretStr(redis_url)))
    placed: list[tuple[Any, ...]] = []

    def place(*arguments: Any) -> list[Any]:
        placed.append(arguments)
        return []

    signals = await assemble_signals(config, client, SystemClock(), place)
    assert [page.endpoint for page in signals.pages] == ["GET /signals/recent", "GET /signals/stream"]
    assert [page.is_public for page in signals.pages] == [True, False]
    answer = await signals.pages[0].handler(PageRequest(None))
    assert isinstance(answer, PageAnswer) and isinstance(answer.body, bytes) and b'"M1"' in answer.body
    assert len(placed) == 1
    refusal = await signals.pages[1].handler(PageRequest(b"a" * 32))
    assert isinstance(refusal, Refusal)  # Without meters nothing can be charged, so nothing is delivered.
    for close in signals.closers:
        await close()
    await client.aclose()
    assert not [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
