"""The stream hubs as Ray actors: one for the replicas of each Ray node, placed, restarted and found by name.

Implements: design, "Owners, for every kind of actor" (one a node). A thin wrapper around actor.py. A hub's state is
what the replicas of its node want; a hub that is restarted is told by them again, and they tell their clients the gap.
So events reach a replica without leaving its machine, and a lost machine takes the subscriptions of its own replicas
alone. Identical subscriptions share one at the nodes within a machine.

The replicas of a node place its hub, on their own node and on no other one. Placing also ends hubs of nodes that are
gone. A node whose replicas have left keeps its hub, which has no topics then, until the node leaves.
"""

import os
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from actors import hosting
from actors.actor_settings import OF_EVERY_ACTOR
from actors.clock import SystemClock
from actors.config import Config
from actors.hotlink.owner import LinkServer, each
from actors.provider_config import NodeConfig
from actors.streams.api import BLOCK, CHANGE, HUB_ACTOR_PREFIX, POLL, WINDOW
from actors.streams.hub.actor import StreamHub, StreamUrl
from actors.streams.hub.window_source import WindowSource
from actors.streams.yellowstone.feeds import open_feeds
from actors.telemetry.metrics import Metrics
from actors.telemetry.metrics_page import ReportingActor
from actors.upstream.api import ChangingNode

_ONE_FOR_ALL = "stream-hub"
OpenNode = Callable[[Config], Awaitable[ChangingNode]]
# The settings of the hub and of what the wiring opens for it; it is replaced when one of them changes.
USES = (*OF_EVERY_ACTOR, "geyser", "storage.cluster_secret", "storage.postgres_url", "streams", "upstream")


class StreamHubActor(ReportingActor):
    """open_node: given by the wiring."""

    def __init__(self, config: Config, fingerprint: str, name: str, open_node: OpenNode) -> None:
        super().__init__(config, fingerprint, name)
        self._open_node = open_node
        self._address: tuple[str, int] | None = None

    async def address(self) -> tuple[str, int]:
        """Host and port of the hot link."""
        await self._ready()
        assert self._address is not None
        return self._address

    async def health(self) -> dict[str, Any]:
        await self._ready()
        return self._hub.health()

    async def _assemble(self) -> None:
        config = self._config
        assert config.storage.cluster_secret is not None
        node = await self._open_node(config)
        self._hub = hub = StreamHub(config.streams, [], node, int.from_bytes(os.urandom(6), "big"))
        node.follow(lambda in_use: hub.use(stream_urls(in_use)))
        source = open_source(config)
        if source is not None:
            source.start()
        self._server = serve_links(hub, config.storage.cluster_secret.get_secret_value().encode(), source)
        host = hosting.this_address()
        self._address = (host, await self._server.start(host))
        watch_hub(self._metrics, hub)


def serve_links(hub: StreamHub, secret: bytes, source: WindowSource | None = None) -> LinkServer:
    """Make the server of the hub's hot links, over TCP."""
    handlers = {CHANGE: each(hub.change), POLL: each(hub.poll)}
    if source is not None:
        handlers |= {WINDOW: each(source.ask_window), BLOCK: each(source.ask_block)}
    return LinkServer(secret, handlers, hub.gone)


def keeps_window(config: Config) -> bool:
    """Return whether the hub keeps past slots of the Yellowstone stream."""
    return config.upstream.yellowstone_url is not None and config.geyser.replay_slots > 0


def open_source(config: Config) -> WindowSource | None:
    """Open the source of the window of the Yellowstone stream. None: no window is kept."""
    if not keeps_window(config):
        return None
    return WindowSource(open_feeds(config, SystemClock()), config.geyser, int.from_bytes(os.urandom(6), "big") + 1)


def stream_urls(nodes: Iterable[NodeConfig]) -> list[StreamUrl]:
    """Return the nodes that have a WebSocket URL."""
    return [
        StreamUrl(str(node.name), node.ws_url.get_secret_value(), is_spare=node.weight == 0)
        for node in nodes
        if node.ws_url is not None
    ]


def watch_hub(metrics: Metrics, hub: StreamHub) -> None:
    """Report what a hub serves."""
    metrics.watch("stream_hub_replicas", "Replicas that have subscriptions at this hub.", lambda: hub.replicas)
    metrics.watch("stream_hub_topics", "Different subscriptions of this hub at the nodes.", lambda: len(hub.topics))
    text = "Nodes to which this hub has a WebSocket; it has none while it has no subscriptions."
    metrics.watch("stream_hub_nodes_up", text, lambda: len(hub.health()["up"]))


def place_hub(config: Config, open_node: OpenNode) -> hosting.Reference:
    """Return a reference to the hub of this Ray node, which is started where there is none. Needs a connected Ray."""
    node = hosting.this_node()
    hosting.remove_of_lost_nodes(HUB_ACTOR_PREFIX)
    name = hosting.name_on(HUB_ACTOR_PREFIX, node)
    more = name, open_node
    return hosting.place_with_settings(StreamHubActor, name, config, USES, *more, on_node=node, may_share=True)


def remove_hub_of_releases_before() -> None:
    """End the one hub for all nodes that releases before had."""
    hosting.remove(_ONE_FOR_ALL)
