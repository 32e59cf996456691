"""The number of classifiers changes, with real stores and the chain's stream: each signal once, and none lost."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
from redis.asyncio import Redis

from actors.clock import SystemClock
from actors.signals.actor import SignalClassifier
from actors.signals.block_source import BlockSource
from actors.signals.geyser_source import GeyserSource
from actors.signals.log import NO_CURSOR, POSITIONS, LogEntry, RedisSignalLog
from actors.signals.positions import SLICES, WALLETS_SLICE, slices_of
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


@pytest.mark.parametrize("is_old_data", [False, True])
async def test_classifiers_go_on_where_another_number_of_them_was(
    redis: Redis, chain: Process, node: NodeClient, is_old_data: bool
) -> None:
    """Threat 69: 1, 3, 2 and 1 of them, while coins are made, also while none runs. is_old_data: the first
    number of positions is as a release before kept them, one for each classifier."""
    log, history, running, mints = RedisSignalLog(redis), MemorySignalHistory(), list[SignalClassifier](), list[str]()

    def started(index: int, count: int) -> SignalClassifier:
        slices = slices_of(index, count)
        programs = tuple(name for name in slices if name != WALLETS_SLICE)
        made = SignalClassifier(
            *(f"{index}/{count}", slices, GeyserSource(chain.facts["grpc_url"], programs)),
            lambda until: BlockSource(node, programs, until=until),
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

    for count in (1, 3, 2, 1):
        running = [started(index, count) for index in range(count)]
        async with asyncio.timeout(_WAIT_SECONDS):
            while not all(each.health()["slot"] for each in running):  # noqa: ASYNC110 - it is in another process.
                await asyncio.sleep(0.05)
        for _ in range(3):
            await launch()
        if count != 2:  # Else they are stopped with what is under way.
            await until_all_are_told()
        await asyncio.gather(*(each.stop() for each in running))
        if is_old_data and count == 1:
            position = min(int(slot) for slot in (await redis.hgetall(POSITIONS)).values())
            await redis.delete(POSITIONS)
            await redis.hset(POSITIONS, "0/1", str(position))
        await launch()  # While none runs.
    last = started(0, 1)
    found = await until_all_are_told()
    await last.stop()
    assert len(found) == len(set(found)) and set(found) >= set(mints)
    assert {name.decode() for name in await redis.hkeys(POSITIONS)} == set(SLICES)
    assert not [entry for entry in await log.read(NO_CURSOR, 10_000) if entry.gap is not None]


def _told(entries: list[LogEntry]) -> Iterator[str]:
    for entry in entries:
        if entry.event is not None and entry.event.kind == "newPair":
            assert entry.change == "event"
            yield str(entry.event.mint)
