"""How webhook dispatchers reach accounts, nodes and signals, and how replicas reach the dispatchers.

Implements: design, "Layout" (siblings never meet; they are joined here). Wiring; every rule is in webhooks/.
"""

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial

from actors.clock import SystemClock
from actors.config import Config
from actors.launch.assembly.deposit_watcher import open_accounts, open_node
from actors.launch.assembly.signalling import open_signal_reader
from actors.ownership.store import opened_ownership
from actors.pages import Page
from actors.signals.api import AWAY
from actors.webhooks.api import WebhooksClient
from actors.webhooks.endpoints import WebhookPages
from actors.webhooks.host import place_dispatchers
from actors.webhooks.signal_follower import SignalFeed
from actors.webhooks.slices import KIND


async def open_feed(config: Config) -> tuple[SignalFeed, tuple[type[Exception], ...]]:
    """Open the log of signals, whose connections live as long as the actor's process."""
    reader, _ = await open_signal_reader(config)
    return reader, AWAY


async def place_all_dispatchers(config: Config) -> int:
    """Start or end dispatchers, and move their slices, until there are as many as are wanted now; returns how many."""
    return await place_dispatchers(config, open_accounts, open_node, open_feed)


async def assemble_webhooks(
    config: Config, place: Callable[[Config], Awaitable[int]] = place_all_dispatchers
) -> tuple[WebhooksClient, list[Page], Callable[[], Awaitable[None]]]:
    """Place the dispatchers where they are missing. Returns them as a replica holds them, the pages that ask them, and
    what closes both."""
    await place(config)
    parts = AsyncExitStack()
    ownership = await parts.enter_async_context(opened_ownership(config.storage, "gateway-webhooks"))
    client = WebhooksClient(partial(ownership.holders, KIND), SystemClock())
    await client.start()
    parts.push_async_callback(client.stop)
    return client, WebhookPages(client.ask).pages(), parts.aclose
