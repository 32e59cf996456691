"""How replicas reach the stream hub, how the hub reaches the nodes, and which subscriptions sockets offer.

Implements: design, "Layout" (contexts on one level do not import each other; they are joined here). Wiring only: every
rule is in streams/.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from actors import hosting
from actors.background import Background
from actors.clock import SystemClock
from actors.config import Config
from actors.hotlink.replica import Link
from actors.launch.assembly.deposit_watcher import open_node
from actors.metering.api import SubscriptionKind
from actors.metering.meters import Meters
from actors.metering.standing_watch import StandingWatch
from actors.streams.api import LINK_KINDS
from actors.streams.hub.feed import TopicFeed
from actors.streams.hub.host import keeps_window, place_hub, remove_hub_of_releases_before, stream_urls
from actors.streams.hub.own_hub import OwnHub
from actors.streams.websocket.kinds import native_kinds
from actors.streams.websocket.sockets import StreamSockets
from actors.telemetry.metrics import Metrics

logger = logging.getLogger(__name__)

# Replicas of the previous release have left by then; while they drain, they use its hub.
_OTHER_RELEASE_SECONDS = 900.0
Close = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Streaming:
    """The streams of one replica. sockets: None: no node has a WebSocket, so none is offered.

    link: to the hub of this node; None: there is none. closers: to be called in this order, once the doors are closed.
    """

    sockets: StreamSockets | None
    link: Link | None
    closers: Sequence[Close]
    hub: OwnHub | None = None


async def assemble_streams(
    config: Config,
    meters: Meters,
    watch: StandingWatch,
    replica_id: bytes,
    metrics: Metrics,
    kinds: Sequence[SubscriptionKind] = (),
    place: Callable[..., Any] = place_hub,
) -> Streaming:
    """kinds: subscriptions of other contexts. meters, watch: of all streams of the replica."""
    if not needs_hub(config):
        return Streaming(None, None, [])
    # In a thread: it blocks while a new process starts, and the replica's loop must not.
    handle = await asyncio.to_thread(place, config, open_node)

    async def resolve() -> tuple[str, int]:
        try:
            host, port = await hosting.ask(handle, "address", wait_seconds=5)
        except hosting.ActorUnreachable as error:
            raise OSError(str(error)) from error
        return host, port

    assert config.storage.cluster_secret is not None
    link = Link(config.storage.cluster_secret.get_secret_value().encode(), LINK_KINDS, resolve, replica_id)
    link.start()
    hub, background = OwnHub(link, SystemClock()), Background(logger, "ending the hub of a release before failed")
    background.start(_end_hub_of_releases_before())
    if not offers_streams(config):
        return Streaming(None, link, [background.stop, link.stop], hub)
    feed = TopicFeed(link, replica_id)
    feed.start()
    sockets = StreamSockets(config.streams, meters, watch, [*native_kinds(feed), *kinds])
    metrics.watch("websockets_open", "Open WebSockets of clients.", lambda: len(sockets))
    return Streaming(sockets, link, [background.stop, feed.stop, link.stop], hub)


async def _end_hub_of_releases_before() -> None:
    await asyncio.sleep(_OTHER_RELEASE_SECONDS)
    await asyncio.to_thread(remove_hub_of_releases_before)


def needs_hub(config: Config) -> bool:
    return offers_streams(config) or keeps_window(config)


def offers_streams(config: Config) -> bool:
    return bool(stream_urls(config.upstream.named_nodes))
