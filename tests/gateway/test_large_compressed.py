"""Large answers through the real doors and sockets to clients that take a coding.

Rules: decisions, "Content types and codings"; money rules 1 and 2; threats 13 and 36.
"""

import asyncio
import base64
import contextlib
import json
import os
import signal
from collections.abc import AsyncIterator, Callable

import pytest

from actors.gateway.calls.large_bodies import LargeBodies
from actors.upstream import replies
from tests.gateway.calls.test_large_bodies import TEXT, ready
from tests.gateway.calls.test_uncompressed_rest import decoded

from .doubles import ScriptedNode
from .test_short_way import Client
from .test_wire import both_ways, listening, our_ways, post, speak
from .world import World, a_world, call

NODE_BODY = b'{"jsonrpc":"2.0","result":[' + TEXT + b'0],"id":1}'
CALL = json.dumps(call("getBlock", 5)).encode()
COST = 25


@contextlib.asynccontextmanager
async def a_large_world(node_body: bytes = NODE_BODY) -> AsyncIterator[tuple[World, LargeBodies]]:
    """A node with large answers, and the process that compresses them, started."""
    async with a_world(ScriptedNode(lambda *_: replies.judge(node_body))) as world:
        bodies = world.door._compressing.large_bodies
        await ready(bodies)
        yield world, bodies


def charged(world: World) -> list[bytes]:
    return [charge.operation for charge in (*world.accounts.settles, *world.accounts.charges)]


async def until(is_true: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not is_true():  # noqa: ASYNC110 - of another process, and of sockets.
            await asyncio.sleep(0.005)


@both_ways
async def test_a_large_answer_is_compressed_for_whoever_takes_it(swift: bool) -> None:
    """Single calls and batches, one after another on a connection: in chunks, without a length, the node's own bytes.

    It is charged once and told as delivered once; other clients have it as it is, with the same `Vary`."""
    batch = json.dumps([call("getBlock", 5, id=1), call("getSlot", id=2)]).encode()
    async with a_large_world() as (world, _), listening(world.door, swift) as port:
        customer = await world.customer(1_000)
        client = await Client.connect(port)
        requests = [(CALL, b"gzip"), (CALL, b"zstd"), (batch, b"zstd"), (CALL, b"br"), (CALL, b"identity")]
        for body, accepts in requests:
            client.send(post(customer.api_key, body, b"/", b"accept-encoding: " + accepts))
        answered = await client.read(len(requests))
        for (body, accepts), (status, sent, whole) in zip(requests, answered, strict=True):
            headers = {name.lower(): value for name, value in sent}
            assert (status, headers[b"vary"]) == (200, b"accept-encoding")
            coding = accepts.decode() if accepts in (b"gzip", b"zstd") else None
            assert headers.get(b"content-encoding") == (None if coding is None else accepts)
            assert (b"content-length" in headers) is (coding is None)
            assert headers.get(b"transfer-encoding") == (None if coding is None else b"chunked")
            found = whole if coding is None else decoded(coding, whole)
            assert found == NODE_BODY if body is CALL else json.loads(found)[0] == json.loads(NODE_BODY)
        await until(lambda: len(world.accounts.delivered_operations) == len(charged(world)))
        assert await world.balance(customer) == 1_000 - 5 * COST - 1


@our_ways
@pytest.mark.threat(36)
async def test_a_client_that_leaves_in_the_middle_frees_its_place(swift: bool) -> None:
    """It has paid, as for every answer that was there; the next client finds the place."""
    async with a_large_world() as (world, bodies), listening(world.door, swift) as port:
        customer = await world.customer(1_000)
        for _ in range(3):
            client = await Client.connect(port)
            client.send(post(customer.api_key, CALL, b"/", b"accept-encoding: gzip"))
            await client.reader.readexactly(1_000)
            client.writer.transport.abort()
        await until(lambda: bodies.taken == 0)
        client = await Client.connect(port)
        client.send(post(customer.api_key, CALL, b"/", b"accept-encoding: gzip"))
        ((_, _, whole),) = await client.read(1)
        assert decoded("gzip", whole) == NODE_BODY
        assert await world.balance(customer) == 1_000 - 4 * COST


@our_ways
async def test_a_process_that_is_killed_in_the_middle_costs_nobody_an_answer(swift: bool) -> None:
    """The client reads on, and has the whole answer."""
    async with a_large_world(NODE_BODY.replace(b"0],", TEXT + b"0],")) as (world, bodies):
        customer = await world.customer(1_000)
        async with listening(world.door, swift) as port:
            client, killed = await Client.connect(port), bodies.pid
            assert killed is not None
            client.send(post(customer.api_key, CALL, b"/", b"accept-encoding: zstd"))
            await until(lambda: bodies.taken == 1)
            os.kill(killed, signal.SIGKILL)
            ((status, _, whole),) = await client.read(1)
            assert status == 200 and len(json.loads(decoded("zstd", whole))["result"]) == 2 * 70_000 + 1
            client.send(post(customer.api_key, CALL, b"/", b"accept-encoding: zstd"))
            ((_, headers, _),) = await client.read(1)
            assert b"content-encoding" not in {name.lower() for name, _ in headers}
            assert await world.balance(customer) == 1_000 - 2 * COST


@our_ways
@pytest.mark.threat(57)
async def test_a_compressed_answer_is_broken_off_when_its_charge_is_withdrawn_on_the_way(swift: bool) -> None:
    """It has no last chunk, so no client takes it for whole, and it costs nothing."""
    noise = b"".join(b'"%b",' % base64.b64encode(os.urandom(750_000)) for _ in range(7))
    async with a_large_world(b'{"jsonrpc":"2.0","result":[' + noise + b'0],"id":1}') as (world, bodies):
        customer = await world.customer(100)
        async with listening(world.door, swift) as port:
            client = await Client.connect(port)
            client.writer.transport.pause_reading()
            client.send(post(customer.api_key, CALL, b"/", b"accept-encoding: gzip"))
            await until(lambda: bool(charged(world)))
            await until(lambda: bodies.taken == 0)
            await asyncio.sleep(0.05)  # Until the sockets are full.
            world.accounts.in_touch, world.accounts.gives_up = False, True
            client.writer.transport.resume_reading()
            with pytest.raises(AssertionError, match="the connection ended"):
                await client.read(1)
        assert world.accounts.delivered_operations == []
        assert await world.balance(customer) == 100


async def test_http_1_0_has_no_chunks() -> None:
    """So its large answers are sent as they are, with a length."""
    async with a_large_world() as (world, _), listening(world.door, swift=True) as port:
        customer = await world.customer(100)
        sent = post(customer.api_key, CALL, b"/", b"accept-encoding: gzip").replace(b"HTTP/1.1", b"HTTP/1.0")
        head, _, body = (await speak(port, sent)).partition(b"\r\n\r\n")
        assert b"content-encoding" not in head.lower() and b"transfer-encoding" not in head.lower()
        assert body == NODE_BODY
