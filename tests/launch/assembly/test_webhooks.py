"""Guards that replicas place the dispatchers of these settings, and ask the holders of their slices."""

from typing import Any

import pytest
from pydantic import SecretStr

from actors.config import Config, StorageConfig
from actors.launch.assembly import webhooks
from actors.launch.assembly.deposit_watcher import open_accounts, open_node
from actors.launch.assembly.webhooks import assemble_webhooks, open_feed, place_all_dispatchers


async def test_the_dispatchers_follow_their_settings(postgres_url: str) -> None:
    """Rule: they are placed with this replica's settings before it looks who holds what. Their pages are served."""
    placed: list[Config] = []

    async def place(config: Config) -> int:
        placed.append(config)
        return 1

    config = Config(storage=StorageConfig(postgres_url=SecretStr(postgres_url)))
    _, pages, close = await assemble_webhooks(config, place=place)
    await close()
    assert placed == [config]
    assert {page.endpoint for page in pages} >= {
        *("POST /webhooks", "GET /webhooks", "DELETE /webhooks/{id}", "POST /webhooks/{id}/rotate-secret"),
    }
    assert not any(page.is_public for page in pages)


async def test_dispatchers_reach_accounts_nodes_and_signals(monkeypatch: pytest.MonkeyPatch) -> None:
    placed: list[Any] = []

    async def place(*arguments: Any) -> int:
        placed.append(arguments)
        return 3

    monkeypatch.setattr(webhooks, "place_dispatchers", place)
    assert await place_all_dispatchers(Config()) == 3
    assert placed == [(Config(), open_accounts, open_node, open_feed)]
