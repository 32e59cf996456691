"""Guards that replicas find racers of these settings."""

from typing import Any

import pytest
from pydantic import SecretStr

from actors.config import Config, StorageConfig
from actors.launch.assembly import sending
from actors.launch.assembly.sending import assemble_sends


class Anything:
    single_nodes = ()


async def test_racers_follow_their_settings(postgres_url: str) -> None:
    """Rule: they are placed with the settings of this replica, before it looks who holds what."""
    placed: list[Any] = []

    async def place(config: Config) -> int:
        placed.append(config)
        return 1

    anything: Any = Anything()
    config = Config(storage=StorageConfig(postgres_url=SecretStr(postgres_url)))
    client, methods, close = await assemble_sends(config, anything, None, place=place)
    assert client.landing is None
    await close()
    assert placed == [config]
    assert set(methods.caller_handlers()) | set(methods.handlers()) == {
        *("sendAndConfirm", "getSendStatus", "sendSmartTransaction", "sendTransaction"),
    }


async def test_an_operators_command_and_a_deployment_place_racers_in_one_way(monkeypatch: pytest.MonkeyPatch) -> None:
    placed: list[Any] = []

    async def place(*arguments: Any) -> int:
        placed.append(arguments)
        return 3

    monkeypatch.setattr(sending, "place_racers", place)
    assert await sending.place_all_racers(Config()) == 3
    assert placed == [(Config(), sending.open_settling, sending.open_nodes)]
