"""Guards when a replica has a watcher of deposits, and that it is the one of these settings."""

from typing import Any

import pytest
from pydantic import SecretStr

from actors.accounts.api import OwnerUnavailable, SetStatus
from actors.actor_settings import part_of
from actors.config import AccountsConfig, Config, PaymentsConfig, StorageConfig
from actors.deposits.usdc import host as deposits
from actors.launch.assembly.deposit_watcher import open_accounts, open_node, watch_deposits
from actors.sends import host as sends
from actors.webhooks import host as webhooks


async def test_without_a_deposit_wallet_nothing_is_watched() -> None:
    """Rule: deposits are off until there is somewhere to pay to."""
    placed: list[Any] = []
    assert await watch_deposits(Config(), place=lambda *arguments: placed.append(arguments)) is None
    assert placed == []


@pytest.mark.parametrize("uses", [deposits.USES, sends.USES, webhooks.USES], ids=["watcher", "racer", "dispatcher"])
async def test_other_actors_find_the_owners_and_never_place_them(uses: tuple[str, ...]) -> None:
    """Rule: an actor keeps the settings that it was made with. If it placed owners by them, it would replace those of a
    newer deployment. Without a cluster, placing fails; finding waits for the first question."""
    config = Config(storage=StorageConfig(cluster_secret=SecretStr("s" * 32)), accounts=AccountsConfig(shard_actors=3))
    accounts = await open_accounts(part_of(config, uses))
    with pytest.raises(OwnerUnavailable, match="not connected to a cluster"):
        await accounts.ask(SetStatus(b"a" * 32, "suspended", "test"))


async def test_the_watcher_follows_its_settings() -> None:
    """Rule: it is placed with the settings of this replica, of which it gets those that it uses."""
    config = Config(payments=PaymentsConfig(deposit_wallet="4uQeVj5tqViQh7yWWGStvkEG1Zmhx6uasJtWCJziofM"))
    placed: list[Any] = []

    def place(*arguments: Any) -> list[Any]:
        placed.append(arguments)
        return []

    client = await watch_deposits(config, place=place)
    assert client is not None
    await client.stop()
    assert placed == [(config, open_accounts, open_node)]
