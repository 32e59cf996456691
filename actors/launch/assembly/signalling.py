"""How replicas reach the log of signals, and how the classifiers reach the nodes.

Implements: design, "Layout" (contexts on one level do not import each other; they are joined here). Wiring only: every
rule is in signals/.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from actors import hosting
from actors.clock import Clock
from actors.config import Config
from actors.launch.assembly.deposit_watcher import open_node
from actors.metering.meters import Meters
from actors.metering.standing_watch import StandingWatch
from actors.pages import Page
from actors.signals.api import SignalReader
from actors.signals.deliveries import RedisDeliveries
from actors.signals.event_stream import SignalEventStream
from actors.signals.history import PostgresSignalHistory
from actors.signals.host import place_classifiers
from actors.signals.hub import SignalHub
from actors.signals.log import RedisSignalLog
from actors.signals.recent import MINUTE_MAX, RecentSignals
from actors.signals.replays import Replays
from actors.signals.subscriptions import SignalSubscriptions
from actors.storage.connections import checked_redis, connect_postgres

_APPLICATION = "ledger-gateway signals"
_CONNECTIONS_MAX = 2
_SOURCE_AWAY_SECONDS = 4.0  # A change of the source takes less. Below the time between two looks at a classifier.
Close = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Signals:
    """classifiers: clients that ask each for its health."""

    hub: SignalHub
    kind: SignalSubscriptions
    pages: Sequence[Page]
    classifiers: Sequence[hosting.ActorClient]
    closers: Sequence[Close]

    def sources(self) -> dict[str, Any]:
        """Return what GET /health tells of signals. source: `blocks` where one classifier polls; `none` where one has
        none. lag_slots: how far the slowest is behind; None: not known. gap: the newest that one of them had to tell
        since it started, where there is one."""
        states = [classifier.state for classifier in self.classifiers]
        names = {str(state.get("source", "none")) for state in states}
        lags = [state.get("lag_slots") for state in states]
        gaps = [gap for state in states if (gap := state.get("gap")) is not None]
        found = {
            "source": next(name for name in ("none", "blocks", "yellowstone") if name in names),
            "lag_slots": None if None in lags else max(int(lag) for lag in lags if lag is not None),
        }
        return found | ({"gap": max(gaps, key=lambda gap: gap["to_slot"])} if gaps else {})

    @property
    def are_read(self) -> bool:
        """Whether every classifier has a source; one that starts, or changes its source, counts as having one."""
        return all(
            classifier.is_starting or classifier.state.get("source_away_seconds", math.inf) < _SOURCE_AWAY_SECONDS
            for classifier in self.classifiers
        )


async def assemble_signals(
    config: Config,
    redis_client: Any,
    clock: Clock,
    meters: Meters,
    watch: StandingWatch,
    place: Callable[..., Sequence[Any]] = place_classifiers,
) -> Signals:
    """Return this replica's hub, its pages and its kind of subscription. watch: of its open streams."""
    assert config.storage.postgres_url is not None
    # In a thread: it blocks while a new process starts, and the replica's loop must not.
    handles = await asyncio.to_thread(place, config, open_node)
    classifiers = [hosting.ActorClient(handle) for handle in handles]
    for classifier in classifiers:
        classifier.start()
    pool = await connect_postgres(
        config.storage.postgres_url.get_secret_value(), connections_max=_CONNECTIONS_MAX, application=_APPLICATION
    )
    log = RedisSignalLog(redis_client, config.signals.stream_entries_max)
    replays = Replays(log, PostgresSignalHistory(pool))
    hub = SignalHub(log, replays, RedisDeliveries(redis_client), clock)
    await hub.start()
    recent = RecentSignals(hub, replays, clock)
    pages = [
        Page("GET", "/signals/recent", recent.answer, is_public=True, is_limited=False, minute_max=MINUTE_MAX),
        Page("GET", "/signals/stream", SignalEventStream(hub, meters, watch).answer, is_limited=False),
    ]
    kind = SignalSubscriptions(hub)
    closers = [hub.stop, *(classifier.stop for classifier in classifiers), pool.close]
    return Signals(hub, kind, pages, classifiers, closers)


async def open_signal_reader(config: Config) -> tuple[SignalReader, Close]:
    """Open a reader of the log for an actor outside the replicas, with connections of its own, and what closes it."""
    assert config.storage.postgres_url is not None and config.storage.redis_url is not None
    pool = await connect_postgres(
        config.storage.postgres_url.get_secret_value(), connections_max=_CONNECTIONS_MAX, application=_APPLICATION
    )
    client = await checked_redis(config.storage.redis_url.get_secret_value())
    log = RedisSignalLog(client, config.signals.stream_entries_max)

    async def close() -> None:
        await client.aclose()
        await pool.close()

    return SignalReader(log, Replays(log, PostgresSignalHistory(pool))), close
