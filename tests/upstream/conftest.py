"""The two ways to a node's connections: the tests of the client run over both."""

import asyncio

import pytest

from actors.upstream import client, kept_connections
from actors.upstream.connections import UnsupportedAiohttp

WAYS = ("kept", "single")


def unknown_aiohttp(monkeypatch: pytest.MonkeyPatch, reason: str = "another version") -> None:
    """From here on aiohttp is found not to be as kept_connections.py knows it."""

    def check(loop: asyncio.AbstractEventLoop) -> None:
        raise UnsupportedAiohttp(reason)

    monkeypatch.setattr(kept_connections, "_check_aiohttp", check)
    client._warn_of_single_connections.cache_clear()


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """kept: as usual. single: with an aiohttp whose insides are not as expected."""
    if request.param == "single":
        unknown_aiohttp(monkeypatch)
    name: str = request.param
    return name
