"""The stream hub as a Ray actor: one for the whole service, placed, restarted and found by name.

Implements: design, "Layout" (an actor exists where state needs one owner). A thin wrapper around actor.py. Its state
is what replicas want; a hub that is restarted is told by them again, and they tell their clients the gap.
"""

import os
from collections.abc import Awaitable, Callable
from typing import Any

from actors import hosting
from actors.actor_settings import OF_EVERY_ACTOR
from actors.clock import SystemClock
from actors.config import Config
from actors.hotlink.owner import LinkServer, each
from actors.streams.api import BLOCK, CHANGE, HUB_ACTOR_NAME, POLL, WINDOW
from actors.streams.hub.actor import StreamHub, StreamUrl
from actors.streams.hub.window_source import WindowSource
from actors.streams.yellowstone.feeds import open_feeds
from actors.telemetry.metrics_page import ReportingActor
from actors.upstream.replies import Node

OpenNode = Callable[[Config], Awaitable[Node]]
# The settings of the hub and of what the wiring opens for it; it is replaced when one of them changes.
USES = (*OF_EVERY_ACTOR, "geyser", "storage.cluster_secret", "streams", "upstream")


class StreamHubActor(ReportingActor):
    """open_node: given by the wiring."""

    def __init__(self, config: Config, fingerprint: str, open_node: OpenNode) -> None:
        super().__init__(config, fingerprint, HUB_ACTOR_NAME)
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
        self._hub = hub = StreamHub(
            config.streams, stream_urls(config), await self._open_node(config), int.from_bytes(os.urandom(6), "big")
        )
        source = open_source(config)
        if source is not None:
            source.start()
        self._server = serve_links(hub, config.storage.cluster_secret.get_secret_value().encode(), source)
        host = hosting.this_address()
        self._address = (host, await self._server.start(host))


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


def stream_urls(config: Config) -> list[StreamUrl]:
    """Return the nodes that have a WebSocket URL."""
    return [
        StreamUrl(str(node.name), node.ws_url.get_secret_value(), is_spare=node.weight == 0)
        for node in config.upstream.named_nodes
        if node.ws_url is not None
    ]


def place_hub(config: Config, open_node: OpenNode) -> Any:
    """Return the handle of the one hub, which is started where there is none. Needs a connected Ray."""
    return hosting.place_with_settings(StreamHubActor, HUB_ACTOR_NAME, config, USES, open_node)
