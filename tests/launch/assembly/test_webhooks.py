"""Guards that replicas find one dispatcher, of these settings."""

from typing import Any

from actors.config import Config
from actors.launch.assembly.deposit_watcher import open_accounts, open_node
from actors.launch.assembly.webhooks import assemble_webhooks, open_feed


async def test_the_dispatcher_follows_its_settings() -> None:
    """Rule: it is placed with this replica's settings, of which it gets those that it uses. Its pages are served."""
    placed: list[Any] = []

    def place(*arguments: Any) -> Any:
        placed.append(arguments)

    client, pages = await assemble_webhooks(Config(), place=place)
    await client.stop()
    assert placed == [(Config(), open_accounts, open_node, open_feed)]
    assert {page.endpoint for page in pages} >= {
        *("POST /webhooks", "GET /webhooks", "DELETE /webhooks/{id}", "POST /webhooks/{id}/rotate-secret"),
    }
    assert not any(page.is_public for page in pages)
