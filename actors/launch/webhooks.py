"""How the webhook dispatcher reaches accounts and nodes, and how replicas reach the dispatcher.

Implements: design, section 3 (siblings never meet; they are joined here). Wiring; every rule is in webhooks/.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from actors.accounts.host import fingerprint
from actors.config import Config
from actors.launch.deposit_watcher import open_accounts, open_node
from actors.pages import Page
from actors.webhooks.api import WebhooksClient
from actors.webhooks.endpoints import WebhookPages
from actors.webhooks.host import place_dispatcher


async def assemble_webhooks(
    config: Config, place: Callable[..., Any] = place_dispatcher
) -> tuple[WebhooksClient, list[Page]]:
    """The dispatcher as a replica holds it, placed where there is none, and the pages that ask it."""
    # In a thread: it blocks while a new process starts, and the replica's loop must not.
    client = WebhooksClient(await asyncio.to_thread(place, config, fingerprint(config), open_accounts, open_node))
    client.start()
    return client, WebhookPages(client.ask).pages()
