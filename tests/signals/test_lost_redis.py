"""A Redis that loses all its data, with real stores and the chain's stream: each signal once, for everybody."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
from redis.asyncio import Redis

from actors.clock import SystemClock
from actors.signals.actor import SignalClassifier
from actors.signals.archive import SignalArchive
from actors.signals.block_source import BlockSource
from actors.signals.classify import PROGRAMS
from actors.signals.deliveries import RedisDeliveries
from actors.signals.filters import SignalFilter
from actors.signals.geyser_source import GeyserSource
from actors.signals.history import PostgresSignalHistory
from actors.signals.hub import SignalHub
from actors.signals.log import RedisSignalLog
from actors.signals.replays import Replays
from actors.upstream.client import NodeClient
from tests.databases import emptied
from tests.devnode.conftest import Process
from tests.signals import chain_calls
from tests.signals.test_history import NO_SIGNALS
from tests.signals.test_hub import ACCOUNT, Client

PAIRS = SignalFilter(kinds=frozenset(["newPair"]))
_WAIT_SECONDS = 60.0


class Stores:
    def __init__(self, redis: Redis, history: PostgresSignalHistory) -> None:
        self.redis, self.history = redis, history
        self.log, self.deliveries = RedisSignalLog(redis), RedisDeliveries(redis)

    async def hub(self) -> SignalHub:
        hub = SignalHub(self.log, Replays(self.log, self.history), self.deliveries, SystemClock())
        await hub.start()
        return hub


@pytest.fixture
async def stores(redis_url: str, postgres_url: str, owner_url: str) -> AsyncIterator[Stores]:
    async with emptied(postgres_url, owner_url, *NO_SIGNALS) as pool, Redis.from_url(redis_url) as redis:
        await redis.flushall()
        yield Stores(redis, PostgresSignalHistory(pool))


async def _until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(_WAIT_SECONDS):
        while not holds():  # noqa: ASYNC110 - what is waited for is in other processes.
            await asyncio.sleep(0.02)


async def test_each_signal_is_told_once_and_paid_once(stores: Stores, chain: Process, node: NodeClient) -> None:
    """Decisions, "cursors and gaps", "one signal": a live subscriber, one that comes back with its cursor, and a new
    replica all end with what was launched; twice: with a living classifier, and with one that died beside Redis."""
    log, history, clock = stores.log, stores.history, SystemClock()

    def started() -> SignalClassifier:
        parts = (0, 1, GeyserSource(chain.facts["grpc_url"], PROGRAMS))
        made = SignalClassifier(
            *parts, lambda until: BlockSource(node, PROGRAMS, until=until), log, history, clock, large_swap_lamports=1
        )
        made.start()
        return made

    archive = SignalArchive(log, history, clock, stream_hours=24, history_days=30)
    archive.start()
    classifier, hub, live, leaving = started(), await stores.hub(), Client(), Client()
    await _until(lambda: bool(classifier.health()["slot"]))
    hub.begin(await hub.subscribe(ACCOUNT, PAIRS, live))
    before = await hub.subscribe(b"b" * 32, PAIRS, leaving)
    hub.begin(before)
    mints: list[str] = []

    async def launch() -> None:
        mints.append((await asyncio.to_thread(chain_calls.launch, chain.url))["mint"])
        await _until(lambda: [each["mint"] for each in live.got] == mints)

    await launch()
    await launch()
    hub.unsubscribe(before)
    for dies in (False, True):
        if dies:
            async with asyncio.timeout(_WAIT_SECONDS):
                while (await history.archived()).cursor < live.got[-1]["cursor"]:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
            await classifier.stop()
        await stores.redis.flushall()
        if dies:
            classifier = started()
        await launch()
        again = Client()
        other = await stores.hub()
        hub.begin(await hub.subscribe(b"b" * 32, PAIRS, leaving, leaving.got[-1]["cursor"]))
        other.begin(await other.subscribe(ACCOUNT, PAIRS, again, live.got[0]["cursor"]))
        await _until(lambda: [each["mint"] for each in leaving.got] == mints)
        await _until(lambda again=again: [each["mint"] for each in again.got] == mints[1:])
        assert [each["cursor"] for each in again.got] == [each["cursor"] for each in live.got[1:]]
        assert again.charged == 0
        await other.stop()
    for client in (live, leaving):
        assert len(client.paid_for) == len(set(client.paid_for))
    await hub.stop()
    await classifier.stop()
    await archive.stop()
