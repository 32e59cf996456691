"""How replicas reach the log of signals, and how the classifiers reach the nodes.

Implements: design, "Layout" (contexts on one level do not import each other; they are joined here). Wiring only: every
rule is in signals/.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from actors.clock import Clock
from actors.config import Config
from actors.launch.assembly.deposit_watcher import open_node
from actors.metering.meters import Meters
from actors.metering.standing_watch import StandingWatch
from actors.pages import Page
from actors.signals.api import Classifiers, SignalReader
from actors.signals.deliveries import RedisDeliveries
from actors.signals.event_stream import SignalEventStream
from actors.signals.history import PostgresSignalHistory
from actors.signals.history_page import SignalHistoryPage
from actors.signals.history_process import HistoryProcess
from actors.signals.history_rows import PostgresHistoryRows
from actors.signals.host import place_classifiers
from actors.signals.hub import SignalHub
from actors.signals.log import RedisSignalLog
from actors.signals.recent import MINUTE_MAX, RecentSignals
from actors.signals.replays import Replays
from actors.signals.subscriptions import SignalSubscriptions
from actors.storage.connections import checked_redis, connect_postgres

_APPLICATION = "ledger-gateway signals"
_CONNECTIONS_MAX = 2
Close = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Signals:
    """The parts of signals in one replica. closers: to be called in this order, once the doors are closed."""

    hub: SignalHub
    kind: SignalSubscriptions
    pages: Sequence[Page]
    classifiers: Classifiers
    closers: Sequence[Close]


async def assemble_signals(
    config: Config,
    redis_client: Any,
    clock: Clock,
    meters: Meters,
    watch: StandingWatch,
    place: Callable[..., int] = place_classifiers,
) -> Signals:
    """Return this replica's hub, its pages and its kind of subscription. watch: of its open streams."""
    assert config.storage.postgres_url is not None
    # In a thread: it blocks while a new process starts, and the replica's loop must not.
    await asyncio.to_thread(place, config, open_node)
    pool = await connect_postgres(
        config.storage.postgres_url.get_secret_value(), connections_max=_CONNECTIONS_MAX, application=_APPLICATION
    )
    exports = await connect_postgres(
        config.storage.postgres_url.get_secret_value(), connections_max=_CONNECTIONS_MAX, application=_APPLICATION
    )
    log = RedisSignalLog(redis_client, config.signals.stream_entries_max)
    classifiers = Classifiers(log)
    await classifiers.start()
    replays = Replays(log, PostgresSignalHistory(pool))
    hub = SignalHub(log, replays, RedisDeliveries(redis_client), clock)
    await hub.start()
    recent = RecentSignals(hub, replays, clock)
    past = SignalHistoryPage(PostgresHistoryRows(exports), log, meters, watch, clock, HistoryProcess())
    pages = [
        Page("GET", "/signals/recent", recent.answer, is_public=True, is_limited=False, minute_max=MINUTE_MAX),
        Page("GET", "/signals/stream", SignalEventStream(hub, meters, watch).answer, is_limited=False, for_keys=True),
        Page("GET", "/signals/history", past.answer, is_limited=False, for_keys=True),
    ]
    kind = SignalSubscriptions(hub)
    closers = [hub.stop, classifiers.stop, past.close, exports.close, pool.close]
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
