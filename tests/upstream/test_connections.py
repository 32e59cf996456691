"""A node's address, which of the two ways to connect is taken, and what is special about single connections."""

import sys

import pytest

from actors.config import UpstreamConfig
from actors.upstream.client import NodeClient
from actors.upstream.connections import SingleConnections, node_address
from actors.upstream.kept_connections import KeptConnections

from .conftest import unknown_aiohttp
from .nodes import Exchange, RawNode, running
from .test_client import CLASS_TIMEOUT_MS, client_of, scene


async def test_connections_are_kept_where_aiohttp_is_as_known(caplog):
    """And nothing is said about it."""
    async with scene() as (_, client):
        await client.call("getSlot", b"[]", CLASS_TIMEOUT_MS)
        assert type(client._connections) is KeptConnections
        assert caplog.text == ""


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


async def test_no_connection_carries_a_second_request(monkeypatch):
    """Whatever a node sends behind its answer meets nobody."""
    unknown_aiohttp(monkeypatch)

    async def twice(exchange: Exchange) -> None:
        stolen = exchange.response(b'{"jsonrpc":"2.0","result":"stolen","id":1}')
        await exchange.send(exchange.response() + stolen)

    async with scene(twice) as (node, client):
        for method in ("getSlot", "sendTransaction", "getSlot"):
            assert (await client.call(method, b"[]", CLASS_TIMEOUT_MS)).value() == b'"ok"'
        assert node.connections == 3
        assert b"Connection: close\r\n" in node.exchanges[0].head


def test_the_head_of_a_request_is_made_of_the_url():
    """Path and query as they were written; user and password as credentials, and nowhere else."""
    address = node_address("https://me:p%40ss@[::1]:8899/v1/a%2Fkey?api-key=x%3D")
    assert address.url == "https://[::1]:8899/v1/a%2Fkey?api-key=x%3D"
    head = address.request_head()
    assert head.startswith(b"POST /v1/a%2Fkey?api-key=x%3D HTTP/1.1\r\nHost: [::1]:8899\r\n")
    assert b"\r\nAuthorization: Basic bWU6cEBzcw==\r\n" in head
    assert head.endswith(b"\r\nContent-Length: ")
    assert b"Authorization" not in node_address("http://x").request_head()


@pytest.mark.parametrize("url", ["ftp://x/", "x:8899", "http://", "", "http://x/a b", "http://x/\u00e9"])
def test_a_url_that_names_no_http_server_is_refused_at_start(url):
    """A mistake in the configuration is told when it is read, not by every call."""
    with pytest.raises(ValueError, match="URL"):
        NodeClient(UpstreamConfig(), url)
