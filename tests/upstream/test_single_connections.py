"""What is special about connections for one request each; what they have in common is in test_client.py."""

from .conftest import unknown_aiohttp
from .nodes import Exchange, RawNode, running
from .test_client import CLASS_TIMEOUT_MS, client_of


async def test_no_connection_carries_a_second_request(monkeypatch):
    """Whatever a node sends behind its answer meets nobody."""
    unknown_aiohttp(monkeypatch)

    async def twice(exchange: Exchange) -> None:
        stolen = exchange.response(b'{"jsonrpc":"2.0","result":"stolen","id":1}')
        await exchange.send(exchange.response() + stolen)

    async with running(RawNode(twice)) as node:
        client = client_of(node)
        for method in ("getSlot", "sendTransaction", "getSlot"):
            assert (await client.call(method, b"[]", CLASS_TIMEOUT_MS)).value() == b'"ok"'
        assert node.connections == 3
        assert b"Connection: close\r\n" in node.exchanges[0].head
        await client.close()
