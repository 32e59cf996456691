"""Guards what a replica knows of an actor that it uses."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from actors import actor_client
from actors.actor_client import ActorClient


class Actor:
    """A handle whose actor answers its health, or raises as Ray does for one that has ended."""

    def __init__(self) -> None:
        self.answers, self.asked, self.health = True, 0, self

    async def remote(self) -> dict[str, Any]:
        self.asked += 1
        if not self.answers:
            raise TimeoutError
        return {"asked": self.asked}


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not is_so():  # noqa: ASYNC110 - nothing tells when the client has asked.
            await asyncio.sleep(0)


async def test_the_health_is_the_newest_one_and_empty_while_the_actor_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """It counts as starting only until its first answer, and only for a short time: after that it is away."""
    monkeypatch.setattr(actor_client, "_PULSE_SECONDS", 0.0)
    actor = Actor()
    actor.answers = False
    client = ActorClient(actor)
    assert client.is_starting and client.state == {}
    client.start()
    await until(lambda: actor.asked >= 5)
    assert not client.is_starting and client.state == {}
    actor.answers = True
    await until(lambda: bool(client.state))
    assert client.state["asked"] > 4 and not client.is_starting
    actor.answers = False
    await until(lambda: not client.state)
    assert not client.is_starting, "it has answered before"
    await client.stop()
