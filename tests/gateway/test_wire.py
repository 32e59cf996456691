"""What only shows on a real socket: framing, absolute-form targets, and a real node behind the real client."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest
import uvicorn

from actors.config import UpstreamConfig
from actors.gateway.doors.http import HttpDoor
from actors.http_server.choice import CautiousApp
from actors.http_server.exchange import Doorway
from actors.http_server.server import HttpServer
from actors.http_server.unread_answers import UnreadAnswers
from actors.upstream.client import NodeClient

from ..raw_sockets import Line
from ..upstream.nodes import Exchange, RawNode, running
from .world import World, a_world, call


@contextlib.asynccontextmanager
async def listening(door: HttpDoor, swift: bool | None = False, **settings: Any) -> AsyncIterator[int]:
    """The door behind uvicorn on a port of the loopback. swift: as a replica has it, with the short way;
    None: as a replica has it where uvicorn is not as expected. settings: of the `Doorway`."""
    async with serving(door, swift, **settings) as (_, port):
        yield port


@contextlib.asynccontextmanager
async def serving(
    door: HttpDoor, swift: bool | None, unread: UnreadAnswers | None = None, **settings: Any
) -> AsyncIterator[tuple[uvicorn.Server, int]]:
    doorway = Doorway(door if swift else None, unread=unread or UnreadAnswers(), **settings)
    http: Any = "httptools" if swift is None else partial(HttpServer, doorway)
    app = CautiousApp(door) if swift is None else door
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, lifespan="off", http=http))
    running_server = asyncio.ensure_future(server.serve())
    while not server.started:  # noqa: ASYNC110  # uvicorn tells nobody when it has started.
        await asyncio.sleep(0)
    try:
        yield server, server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = server.force_exit = True
        await running_server


our_ways = pytest.mark.parametrize("swift", [False, True], ids=["asgi", "swift"])
both_ways = pytest.mark.parametrize("swift", [False, True, None], ids=["asgi", "swift", "public"])


async def speak(port: int, sent: bytes) -> bytes:
    """Everything that comes back until the server closes or has answered once."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(sent)
    head = await reader.readuntil(b"\r\n\r\n")
    length = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    body = await reader.readexactly(int(length[0].split(b":")[1])) if length else await reader.read()
    writer.close()
    return head + body


def post(world_key: str, body: bytes, target: bytes = b"/", *headers: bytes, length: bool = True) -> bytes:
    lines = [b"POST " + target + b" HTTP/1.1", b"host: gateway.test", b"x-api-key: " + world_key.encode(), *headers]
    if length:
        lines.append(b"content-length: %d" % len(body))
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


BODY = json.dumps(call()).encode()


@both_ways
@pytest.mark.threat(7)
async def test_smuggling_shapes_are_400(swift):
    """Threat 7: a length and chunks, or two lengths, are refused and the connection is not used again."""
    async with a_world() as world, listening(world.door, swift) as port:
        customer = await world.customer(10)
        chunked = b"%x\r\n" % len(BODY) + BODY + b"\r\n0\r\n\r\n"
        for sent in (
            post(customer.api_key, chunked, b"/", b"transfer-encoding: chunked"),
            post(customer.api_key, BODY, b"/", b"content-length: 1"),
            post(customer.api_key, BODY, b"/", b"content-length: %d" % len(BODY)),
        ):
            assert (await speak(port, sent)).startswith(b"HTTP/1.1 400 ")
        assert await world.debits(customer) == []


@our_ways
@pytest.mark.threat(7)
async def test_chunks_alone_are_a_body(swift):
    """Threat 7: chunked bodies are ordinary."""
    async with a_world() as world, listening(world.door, swift) as port:
        customer = await world.customer(10)
        chunked = b"5\r\n" + BODY[:5] + b"\r\n%x\r\n" % len(BODY[5:]) + BODY[5:] + b"\r\n0\r\n\r\n"
        sent = post(customer.api_key, chunked, b"/rpc", b"transfer-encoding: chunked", length=False)
        assert (await speak(port, sent)).startswith(b"HTTP/1.1 200 ")


async def all_of(port: int, *pieces: bytes) -> bytes:
    """Everything that comes back until the server closes."""
    line = Line(port)
    await line.says(*pieces)
    said = await line.hears()
    line.close()
    return said


def is_refusal(said: bytes) -> bool:
    """With the interface's body, and the end of the connection."""
    head, _, body = said.partition(b"\r\n\r\n")
    is_closing = head.startswith(b"HTTP/1.1 400 ") and b"\r\nconnection: close" in head
    return is_closing and json.loads(body)["error"]["code"] == "INVALID_REQUEST"


def in_chunks(body: bytes, *trailers: bytes) -> bytes:
    return b"%x\r\n%b\r\n0\r\n" % (len(body), body) + b"".join(line + b"\r\n" for line in trailers) + b"\r\n"


@both_ways
@pytest.mark.threat(45)
async def test_another_clients_request_is_nothing_of_an_upgrades(swift):
    """Threat 45: a front sends the next client's request over the connection of an upgrade with a body: that
    client's credentials do not become trailers of what is in the body, nothing is carried out, and the door closes."""
    async with a_world() as world, listening(world.door, swift) as port:
        victim = await world.customer(10)
        stolen = b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n"
        stolen += in_chunks(BODY).removesuffix(b"\r\n") + b"x: "
        head = b"GET /pricing HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: x\r\ncontent-length: %d\r\n\r\n"
        next_one = b"GET /account/info HTTP/1.1\r\nhost: a\r\nx-api-key: %b\r\n\r\n" % victim.api_key.encode()
        said = await all_of(port, head % len(stolen), stolen, next_one)
        assert said.count(b"HTTP/1.1 ") == 1 and is_refusal(said)
        assert (world.node.calls, await world.debits(victim)) == ([], [])


@both_ways
@pytest.mark.parametrize("path", [b"/", b"/bulk/getBalances", b"/account/info"])
@pytest.mark.threat(46)
async def test_a_trailer_is_no_credential(swift, path):
    """Threat 46: a key that comes behind the body proves nothing."""
    async with a_world() as world, listening(world.door, swift) as port:
        customer = await world.customer(10)
        head = b"%b %b HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n"
        start = head % (b"GET" if path.startswith(b"/account") else b"POST", path)
        body = b'{"addresses":["So11111111111111111111111111111111111111112"]}' if b"bulk" in path else BODY
        said = await all_of(port, start + in_chunks(body, b"x-api-key: " + customer.api_key.encode()))
        assert is_refusal(said)
        assert (world.node.calls, await world.debits(customer)) == ([], [])


@both_ways
@pytest.mark.threat(46)
async def test_a_trailer_is_no_address(swift):
    """Threat 46: X-Forwarded-For of a trusted proxy counts in the head only."""
    settings = {"address_requests_per_minute": 2, "trusted_proxies": ("127.0.0.1",)}
    async with a_world(identity=settings) as world, listening(world.door, swift) as port:
        wallet = await world.customer(account=False)
        body = json.dumps({"pubkey": wallet.text}).encode()
        head = b"POST /auth/challenge HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n"
        for number in range(5):
            trailer = b"x-forwarded-for: 203.0.113.%d" % number
            assert is_refusal(await all_of(port, head + in_chunks(body, trailer)))


@both_ways
@pytest.mark.threat(6)
async def test_targets_as_clients_send_them(swift):
    """Threat 6: one spelling of each path, in origin or absolute form. Every other one is 404, and no call."""
    served = (b"/rpc", b"/rpc?x=1", b"http://gateway.test/rpc")
    others = (b"/rpc/", b"//rpc", b"/RPC", b"/%72pc", b"/./rpc", b"/account/../rpc", b"/%2e%2e/rpc", b"/rpc%00")
    async with a_world() as world, listening(world.door, swift) as port:
        customer = await world.customer(10)
        for target in (*served, *others, b"/rpcx", b"//"):
            answer = await speak(port, post(customer.api_key, BODY, target))
            assert answer.startswith(b"HTTP/1.1 200 " if target in served else b"HTTP/1.1 404 "), target
            assert (b'"NOT_FOUND"' in answer) is (target not in served), target
        assert len(world.accounts.holds) == len(served)


@both_ways
@pytest.mark.threat(10)
async def test_a_long_body_is_answered_before_it_is_sent(swift):
    """Threat 10: the refusal and the end of the connection do not wait for 100 MB."""
    async with a_world() as world, listening(world.door, swift) as port:
        customer = await world.customer(10)
        sent = post(customer.api_key, b"x" * 400_000, b"/", b"content-length: 100000000", length=False)
        answer = await speak(port, sent)
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert b"connection: close" in answer.lower()


@contextlib.asynccontextmanager
async def a_world_with_a_node(node: RawNode, **settings: int) -> AsyncIterator[World]:
    async with running(node):
        client = NodeClient(UpstreamConfig(**settings), node.url)
        async with a_world(client) as world:
            yield world
        await client.close()


async def test_the_nodes_bytes_reach_the_client_unchanged():
    """From socket to socket, nothing but the id differs."""
    exact = b'{"jsonrpc":"2.0","result":{"a":1.10,"b":123456789012345678901234567890},"id":1}'

    async def answer(exchange: Exchange) -> None:
        await exchange.send(exchange.response(exact))

    async with a_world_with_a_node(RawNode(answer)) as world:
        customer = await world.customer(10)
        assert (await world.rpc(customer, call(id="x"))).content == exact.replace(b'"id":1}', b'"id":"x"}')


@pytest.mark.threat(15)
async def test_a_node_that_misbehaves_on_its_socket_costs_nothing():
    """Threat 15: reset in mid-body, a gigabyte, invalid JSON, a wrong id, compressed; then all is well again."""

    async def misbehave(exchange: Exchange) -> None:
        match exchange.number:
            case 0:
                await exchange.send(exchange.response()[:-4])
                exchange.reset()
            case 1:
                await exchange.send(b"HTTP/1.1 200 OK\r\ncontent-length: 1073741824\r\n\r\n")
            case 2:
                await exchange.send(exchange.response(b"{"))
            case 3:
                await exchange.send(exchange.response(b'{"jsonrpc":"2.0","result":1,"id":2}'))
            case 4:
                await exchange.send(exchange.response(b"\x1f\x8b", b"content-encoding: gzip"))
            case _:
                await exchange.send(exchange.response())

    async with a_world_with_a_node(RawNode(misbehave)) as world:
        customer = await world.customer(10)
        for _ in range(5):
            failed = await world.rpc(customer, call())
            assert (failed.status_code, failed.json()["error"]["code"]) == (502, -32003)
            assert failed.headers["x-credits-remaining"] == "10"
        assert (await world.rpc(customer, call())).status_code == 200
        assert await world.debits(customer) == [("getSlot", 1)]
