"""Threat 47 from end to end: a node that mixes up, cuts or forges answers, and two customers at the real door.

Neither customer ever sees the other's answer, and nobody is charged for what is not whole."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator

import pytest

from actors.clock import SystemClock
from actors.config import UpstreamConfig
from actors.upstream.api import Nodes

from ..upstream.nodes import Exchange, RawNode, response, running
from .test_wire import both_ways, listening, post, speak
from .world import Wallet, World, a_world, call

A_KEY, ANOTHER_KEY = "Vote111111111111111111111111111111111111111", "Stake11111111111111111111111111111111111111"


def secret(exchange: Exchange) -> bytes:
    """A result that only the caller of this request may see."""
    return json.dumps(f"of {json.loads(exchange.body)['params'][0]}").encode()


def answer(exchange: Exchange) -> bytes:
    return response(b'{"jsonrpc":"2.0","result":%b,"id":%b}' % (secret(exchange), exchange.id))


@contextlib.asynccontextmanager
async def two_customers(node: RawNode, swift: bool) -> AsyncIterator[tuple["Customer", "Customer", World]]:
    async with running(node), contextlib.AsyncExitStack() as stack:
        nodes = Nodes(UpstreamConfig(node_url=node.url), SystemClock(), lambda *_: None)
        stack.push_async_callback(nodes.close)
        world = await stack.enter_async_context(a_world(nodes))
        port = await stack.enter_async_context(listening(world.door, swift))
        yield (
            Customer(world, port, await world.customer(100), A_KEY),
            Customer(world, port, await world.customer(100), ANOTHER_KEY),
            world,
        )


class Customer:
    """Asks for a balance of its own, on a connection of its own."""

    def __init__(self, world: World, port: int, wallet: Wallet, address: str) -> None:
        self._world, self._port, self.wallet, self._address = world, port, wallet, address

    async def ask(self) -> str:
        """Its own answer, or the name of the error."""
        body = json.dumps(call("getBalance", self._address)).encode()
        answered = await speak(self._port, post(self.wallet.api_key, body))
        said = json.loads(answered.partition(b"\r\n\r\n")[2])
        assert said["id"] == 1
        if "error" in said:
            return str(said["error"]["data"]["constant"])
        assert said["result"] == f"of {self._address}", "another's answer"
        return "own"

    async def charged(self) -> int:
        return len(await self._world.debits(self.wallet))


@both_ways
async def test_a_late_answer_is_not_the_next_customers(swift):
    """The answer to one customer's call, sent once more as the answer to the next call on that connection."""
    first = b""

    async def late(exchange: Exchange) -> None:
        nonlocal first
        first = first or answer(exchange)
        await exchange.send(first if exchange.number < 2 else answer(exchange))

    async with two_customers(RawNode(late), swift) as (one, other, _):
        assert await one.ask() == "own"
        assert await other.ask() == "BACKEND_UNAVAILABLE"
        assert await other.ask() == "own"
        assert (await one.charged(), await other.charged()) == (1, 1)


@both_ways
async def test_answers_that_a_node_exchanges_reach_neither_customer(swift):
    """Two calls at once on two connections, as a proxy before the node might confuse them."""
    held: list[Exchange] = []
    both = asyncio.Event()

    async def exchanged(exchange: Exchange) -> None:
        if len(held) == 2:
            await exchange.send(answer(exchange))
            return
        held.append(exchange)
        if len(held) == 2:
            both.set()
        await both.wait()
        await exchange.send(answer(held[1 - held.index(exchange)]))

    async with two_customers(RawNode(exchanged), swift) as (one, other, _):
        assert await asyncio.gather(one.ask(), other.ask()) == ["BACKEND_UNAVAILABLE"] * 2
        assert (await one.charged(), await other.charged()) == (0, 0)
        assert await asyncio.gather(one.ask(), other.ask()) == ["own", "own"]
        assert (await one.charged(), await other.charged()) == (1, 1)


LARGE = b'"' + b"x" * 300_000 + b'"'


def cut_at_a_brace(exchange: Exchange) -> bytes:
    return b'HTTP/1.1 200 OK\r\n\r\n{"jsonrpc":"2.0","id":%b,"result":{"a":%b}' % (exchange.id, LARGE)


def without_length(exchange: Exchange) -> bytes:
    return b"HTTP/1.1 200 OK\r\n\r\n" + answer(exchange).partition(b"\r\n\r\n")[2]


def shorter_than_it_says(exchange: Exchange) -> bytes:
    return answer(exchange)[:-1]


def redirecting(exchange: Exchange) -> bytes:
    return answer(exchange).replace(b"200 OK", b"302 Found\r\nlocation: http://169.254.169.254/")


def refusing_our_key(exchange: Exchange) -> bytes:
    return answer(exchange).replace(b"200 OK", b"401 Unauthorized")


def forbidding_us(exchange: Exchange) -> bytes:
    error = b'{"jsonrpc":"2.0","error":{"code":403,"message":"forbidden"},"id":%b}' % exchange.id
    return response(error, status=b"403 Forbidden")


@both_ways
@pytest.mark.parametrize(
    "shape",
    [cut_at_a_brace, without_length, shorter_than_it_says, redirecting, refusing_our_key, forbidding_us],
)
async def test_what_is_not_a_whole_answer_costs_nothing(shape, swift):
    """And is shown to nobody; the next call is answered as ever."""

    async def misbehave(exchange: Exchange) -> None:
        if exchange.number == 1:
            await exchange.send(shape(exchange))
            exchange.writer.close()
        else:
            await exchange.send(answer(exchange))

    async with two_customers(RawNode(misbehave), swift) as (one, other, world):
        assert await one.ask() == "own"
        assert await other.ask() == "BACKEND_UNAVAILABLE"
        assert (await other.charged(), await world.balance(other.wallet)) == (0, 100)
        assert [await one.ask(), await other.ask()] == ["own", "own"]
        assert (await one.charged(), await other.charged()) == (2, 1)
