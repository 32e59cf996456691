"""A deployment waits for one new process, not for one after the other, and for the owners of accounts last."""

import asyncio
import threading
from typing import Any

import pytest

from actors.config import Config, PaymentsConfig, UpstreamConfig
from actors.launch.assembly import placing, replica
from actors.telemetry import logs

WHOLE = Config(
    payments=PaymentsConfig(deposit_wallet="So11111111111111111111111111111111111111112"),
    upstream=UpstreamConfig(node_url="http://node.example", node_ws_url="ws://node.example"),
)
ALL = {"place_all_dispatchers", "place_classifiers", "place_all_racers", "place_watchers", "place_hub", "place_sender"}


def placed_at_once(monkeypatch: pytest.MonkeyPatch, number: int) -> list[str]:
    """The names of those that are placed from now on. Each waits until this number of them is being placed."""
    placed: list[str] = []
    meeting = threading.Barrier(number)

    def stand_in(name: str) -> Any:
        def place(config: Config, *_: Any) -> None:
            meeting.wait(timeout=20)
            placed.append(name)

        return place

    def in_a_thread(name: str) -> Any:
        async def place(config: Config) -> None:
            await asyncio.to_thread(stand_in(name), config)

        return place

    for name in ALL:
        monkeypatch.setattr(placing, name, in_a_thread(name) if name.startswith("place_all") else stand_in(name))
    return placed


async def test_all_are_placed_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    placed = placed_at_once(monkeypatch, len(ALL))
    await placing.place_beside_owners(WHOLE)
    assert sorted(placed) == sorted(ALL)


async def test_what_is_not_configured_is_not_placed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a wallet nobody pays in, without a WebSocket of a node there are no streams. The sender of memos is
    ended where they are off."""
    placed = placed_at_once(monkeypatch, 4)
    await placing.place_beside_owners(Config(upstream=UpstreamConfig(node_url="http://node.example")))
    assert set(placed) == ALL - {"place_watchers", "place_hub"}


class Enough(Exception):
    """The order is known."""


async def test_owners_are_placed_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their clients among the other actors find them by their names."""
    order: list[str] = []

    async def beside(config: Config) -> None:
        order.append("beside")

    async def owners(config: Config, replica_id: bytes, tracing: Any) -> Any:
        order.append("owners")
        raise Enough

    monkeypatch.setattr(replica, "place_beside_owners", beside)
    monkeypatch.setattr(replica, "_open_accounts", owners)
    monkeypatch.setattr(logs, "set_up", lambda *_: None)
    storage = WHOLE.storage.model_copy(update={"redis_url": "not asked"})
    with pytest.raises(Enough):
        await replica.assemble(WHOLE.model_copy(update={"storage": storage}))
    assert order == ["beside", "owners"]
