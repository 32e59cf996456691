"""What only shows on a real socket: framing, absolute-form targets, and a real node behind the real client."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator

import pytest
import uvicorn

from actors.config import UpstreamConfig
from actors.gateway import swift_http
from actors.gateway.door_http import HttpDoor
from actors.gateway.swift_http import SwiftHttp
from actors.upstream.client import NodeClient

from ..upstream.nodes import Exchange, RawNode, running
from .world import World, a_world, call


@contextlib.asynccontextmanager
async def listening(door: HttpDoor, swift: bool = False) -> AsyncIterator[int]:
    """The door behind uvicorn on a port of the loopback. swift: as a replica has it, with the short way."""
    async with serving(door, swift) as (_, port):
        yield port


@contextlib.asynccontextmanager
async def serving(door: HttpDoor, swift: bool) -> AsyncIterator[tuple[uvicorn.Server, int]]:
    http = SwiftHttp if swift else "httptools"
    server = uvicorn.Server(uvicorn.Config(door, port=0, log_config=None, lifespan="off", http=http))  # type: ignore[arg-type]
    swift_http.open_to(door if swift else None)
    running_server = asyncio.ensure_future(server.serve())
    while not server.started:  # noqa: ASYNC110  # uvicorn tells nobody when it has started.
        await asyncio.sleep(0)
    try:
        yield server, server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = server.force_exit = True
        await running_server
        swift_http.open_to(None)


both_ways = pytest.mark.parametrize("swift", [False, True], ids=["asgi", "swift"])


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
async def test_row_7_smuggling_shapes_are_400(swift):
    """Hostile input 7: a length and chunks, or two lengths, are refused and the connection is not used again."""
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


@both_ways
async def test_row_7_chunks_alone_are_a_body(swift):
    """Hostile input 7: chunked bodies are ordinary."""
    async with a_world() as world, listening(world.door, swift) as port:
        customer = await world.customer(10)
        chunked = b"5\r\n" + BODY[:5] + b"\r\n%x\r\n" % len(BODY[5:]) + BODY[5:] + b"\r\n0\r\n\r\n"
        sent = post(customer.api_key, chunked, b"/rpc", b"transfer-encoding: chunked", length=False)
        assert (await speak(port, sent)).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    ("target", "status"),
    [
        (b"/rpc", b"200"),
        (b"/rpc?x=1", b"200"),
        (b"http://gateway.test/rpc", b"200"),
        (b"/rpc/", b"404"),
        (b"//rpc", b"404"),
        (b"/RPC", b"404"),
        (b"/%72pc", b"404"),
        (b"/account/../rpc", b"404"),
    ],
)
@both_ways
async def test_row_6_targets_as_clients_send_them(target, status, swift):
    """Hostile input 6: one spelling of each path, in origin or absolute form."""
    async with a_world() as world, listening(world.door, swift) as port:
        customer = await world.customer(10)
        answer = await speak(port, post(customer.api_key, BODY, target))
        assert answer.startswith(b"HTTP/1.1 " + status)


@both_ways
async def test_row_10_a_long_body_is_answered_before_it_is_sent(swift):
    """Hostile input 10: the refusal and the end of the connection do not wait for 100 MB."""
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


async def test_row_15_a_node_that_misbehaves_on_its_socket_costs_nothing():
    """Hostile input 15: reset in mid-body, a gigabyte, invalid JSON, a wrong id, compressed; then all is well again."""

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
