"""How replicas reach the log of signals, and how the classifiers reach the nodes.

Implements: design, section 3 (contexts on one level do not import each other; they are joined here). Wiring only: every
rule is in signals/.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from actors import hosting
from actors.accounts.host import fingerprint
from actors.clock import Clock
from actors.config import Config
from actors.launch.deposit_watcher import open_node
from actors.pages import Page
from actors.signals.deliveries import RedisDeliveries
from actors.signals.event_stream import SignalEventStream, StreamCharges
from actors.signals.history import PostgresSignalHistory
from actors.signals.host import place_classifiers
from actors.signals.hub import SignalHub
from actors.signals.log import RedisSignalLog
from actors.signals.recent import RecentSignals
from actors.signals.replays import Replays
from actors.storage.connections import connect_postgres

_APPLICATION = "ledger-gateway signals"
_CONNECTIONS_MAX = 2
Close = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Signals:
    """classifiers: clients that ask each for its health."""

    hub: SignalHub
    pages: Sequence[Page]
    classifiers: Sequence[hosting.ActorClient]
    closers: Sequence[Close]


async def assemble_signals(
    config: Config,
    redis_client: Any,
    clock: Clock,
    charges: StreamCharges | None = None,
    place: Callable[..., Sequence[Any]] = place_classifiers,
) -> Signals:
    """Return this replica's hub and pages. charges: None: no GET /signals/stream."""
    assert config.storage.postgres_url is not None
    # In a thread: it blocks while a new process starts, and the replica's loop must not.
    handles = await asyncio.to_thread(place, config, fingerprint(config), open_node)
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
    pages = [
        Page("GET", "/signals/recent", RecentSignals(hub, replays, clock).answer, is_public=True, is_limited=False)
    ]
    if charges is not None:
        pages.append(Page("GET", "/signals/stream", SignalEventStream(hub, charges, clock).answer, is_limited=False))
    closers = [hub.stop, *(classifier.stop for classifier in classifiers), pool.close]
    return Signals(hub, pages, classifiers, closers)
