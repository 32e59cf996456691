"""How the webhook dispatcher reaches accounts, nodes and signals, and how replicas reach the dispatcher.

Implements: design, "Layout" (siblings never meet; they are joined here). Wiring; every rule is in webhooks/.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from actors.config import Config
from actors.launch.assembly.deposit_watcher import open_accounts, open_node
from actors.launch.assembly.signalling import open_signal_reader
from actors.pages import Page
from actors.signals.api import AWAY
from actors.webhooks.api import WebhooksClient
from actors.webhooks.endpoints import WebhookPages
from actors.webhooks.host import place_dispatcher
from actors.webhooks.signal_follower import SignalFeed


async def open_feed(config: Config) -> tuple[SignalFeed, tuple[type[Exception], ...]]:
    """Open the log of signals, whose connections live as long as the actor's process."""
    reader, _ = await open_signal_reader(config)
    return reader, AWAY


async def assemble_webhooks(
    config: Config, place: Callable[..., Any] = place_dispatcher
) -> tuple[WebhooksClient, list[Page]]:
    """The dispatcher as a replica holds it, placed where there is none, and the pages that ask it."""
    # In a thread: it blocks while a new process starts, and the replica's loop must not.
    arguments = config, open_accounts, open_node, open_feed
    client = WebhooksClient(await asyncio.to_thread(place, *arguments))
    client.start()
    return client, WebhookPages(client.ask).pages()
