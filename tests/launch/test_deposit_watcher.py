"""Guards when a replica has a watcher of deposits, and that it is the one of these settings."""

from typing import Any

from actors.accounts.host import fingerprint
from actors.config import Config, PaymentsConfig
from actors.launch.deposit_watcher import open_accounts, open_node, watch_deposits


async def test_without_a_deposit_wallet_nothing_is_watched() -> None:
    """Rule: deposits are off until there is somewhere to pay to."""
    placed: list[Any] = []
    assert await watch_deposits(Config(), place=lambda *arguments: placed.append(arguments)) is None
    assert placed == []


async def test_the_watcher_follows_its_settings() -> None:
    """Rule: an actor that was made with other settings is replaced; its fingerprint says so."""
    config = Config(payments=PaymentsConfig(deposit_wallet="4uQeVj5tqViQh7yWWGStvkEG1Zmhx6uasJtWCJziofM"))
    placed: list[Any] = []

    def place(*arguments: Any) -> Any:
        placed.append(arguments)

    client = await watch_deposits(config, place=place)
    assert client is not None
    await client.stop()
    assert placed == [(config, fingerprint(config), open_accounts, open_node)]
