"""Guards when there is a sender of memos, and that it is the one of these settings."""

from typing import Any

from actors.config import Config
from actors.launch.assembly.deposit_watcher import open_node
from actors.launch.assembly.memos import watch_memos
from actors.provider_config import MemosConfig


async def test_nothing_is_sent_to_the_chain_unless_the_settings_say_so() -> None:
    placed: list[Any] = []
    assert await watch_memos(Config(), place=lambda *arguments: placed.append(arguments)) is None
    config = Config(memos=MemosConfig(enabled=True))
    client = await watch_memos(config, place=lambda *arguments: placed.append(arguments))
    assert client is not None
    await client.stop()
    assert placed == [(config, open_node)]
