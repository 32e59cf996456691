"""Which of the two ways to a node's connections is taken."""

import sys

import pytest

from actors.upstream.kept_connections import KeptConnections
from actors.upstream.single_connections import SingleConnections

from .conftest import unknown_aiohttp
from .nodes import RawNode, running
from .test_client import CLASS_TIMEOUT_MS, client_of


async def test_connections_are_kept_where_aiohttp_is_as_known(caplog):
    """And nothing is said about it."""
    async with running(RawNode()) as node:
        client = client_of(node)
        await client.call("getSlot", b"[]", CLASS_TIMEOUT_MS)
        assert type(client._connections) is KeptConnections
        assert caplog.text == ""
        await client.close()


@pytest.mark.parametrize("missing", [True, False])
async def test_another_aiohttp_is_used_in_its_public_way_and_that_is_said_once(monkeypatch, caplog, missing):
    """An update must not end the service, nor quietly make it less strict. One line, however many nodes there are."""
    unknown_aiohttp(monkeypatch, "no such name")
    if missing:
        monkeypatch.setitem(sys.modules, "actors.upstream.kept_connections", None)
    async with running(RawNode()) as node:
        clients = [client_of(node), client_of(node)]
        for client in clients:
            assert (await client.call("getSlot", b"[]", CLASS_TIMEOUT_MS)).value() == b'"ok"'
            assert type(client._connections) is SingleConnections
            await client.close()
    assert caplog.text.count("this aiohttp is not as expected") == 1
