"""The number of classifiers changes, with real stores and the chain's stream: each signal once, and none lost."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
from redis.asyncio import Redis

from actors.clock import SystemClock
from actors.signals.actor import SignalClassifier
from actors.signals.block_source import BlockSource
from actors.signals.classify import PROGRAMS
from actors.signals.geyser_source import GeyserSource
from actors.signals.log import EPOCHS, NO_CURSOR, POSITIONS, LogEntry, RedisSignalLog
from actors.signals.positions import SLICES
from actors.upstream.client import NodeClient
from tests.devnode.conftest import Process
from tests.signals import chain_calls
from tests.signals.memory_store import MemorySignalHistory

_WAIT_SECONDS = 60.0


@pytest.fixture
async def redis(redis_url: str) -> AsyncIterator[Redis]:
    client = Redis.from_url(redis_url)
    await client.flushall()
    yield client
    await client.aclose()


@pytest.mark.parametrize("old_data", ["", "of programs", "of classifiers"])
async def test_classifiers_go_on_where_another_number_of_them_was(
    redis: Redis, chain: Process, node: NodeClient, old_data: str
) -> None:
    """Threat 69: 1, 4, 2 and 1 of them, while coins are made: the number changes under those that run, also while none
    runs. old_data: the first positions are as a release before kept them."""
    log, history, running, mints = RedisSignalLog(redis), MemorySignalHistory(), list[SignalClassifier](), list[str]()

    def started(part: int) -> SignalClassifier:
        made = SignalClassifier(
            *(part, 1, GeyserSource(chain.facts["grpc_url"], PROGRAMS)),
            lambda until: BlockSource(node, PROGRAMS, until=until),
            *(log, history, SystemClock()),
            large_swap_lamports=1 << 60,
        )
        made.start()
        return made

    async def launch() -> None:
        mints.append((await asyncio.to_thread(chain_calls.launch, chain.url))["mint"])

    async def until_all_are_told() -> list[str]:
        async with asyncio.timeout(_WAIT_SECONDS):
            while True:
                found = list(_told(await log.read(NO_CURSOR, 10_000)))
                if set(mints) <= set(found):
                    return found
                await asyncio.sleep(0.05)

    async def until_all_read(count: int) -> None:
        async with asyncio.timeout(_WAIT_SECONDS):
            wanted = [count] * count + [None] * (len(running) - count)
            while [each.health()["parts"] for each in running] != wanted:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
            while "none" in [each.health()["source"] for each in running[:count]]:  # noqa: ASYNC110
                await asyncio.sleep(0.05)

    running.append(started(0))
    await until_all_read(1)
    for _ in range(2):
        await launch()
    await until_all_are_told()
    if old_data:
        await running.pop().stop()
        position = min(int(slot) for name, slot in (await redis.hgetall(POSITIONS)).items() if name.isdigit())
        await redis.delete(POSITIONS, EPOCHS)
        names = SLICES if old_data == "of programs" else ("0/1",)
        await redis.hset(POSITIONS, mapping=dict.fromkeys(names, str(position)))
        await launch()  # While none runs.
        running.append(started(0))
    for count in (4, 2, 1):
        running += [started(part) for part in range(len(running), count)]
        await asyncio.gather(launch(), log.divide(count))
        await until_all_read(count)
        await launch()
    found = await until_all_are_told()
    await asyncio.gather(*(each.stop() for each in running))
    assert len(found) == len(set(found)) and set(found) >= set(mints)
    slots = [entry.event.slot for entry in await log.read(NO_CURSOR, 10_000) if entry.event is not None]
    assert slots == sorted(slots)


def _told(entries: list[LogEntry]) -> Iterator[str]:
    for entry in entries:
        assert entry.gap is None
        if entry.event is not None and entry.event.kind == "newPair":
            assert entry.change == "event"
            yield str(entry.event.mint)
