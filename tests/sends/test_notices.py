"""Notices of signatures over a real socket: they wake the racer, and the loss of the socket does too."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest
from websockets.asyncio.server import Server, ServerConnection, serve

from actors.sends.notices import FOLLOWED_MAX, SignatureNotices
from actors.units import base58_text

FIRST, SECOND = b"a" * 64, b"b" * 64


class FakeNode:
    """Answers subscriptions with numbers from 0 on. refuses: with an error."""

    def __init__(self) -> None:
        self.server: Server | None = None
        self.requests: list[Any] = []
        self.sockets: list[ServerConnection] = []
        self.refuses, self.numbers = False, 0

    @property
    def url(self) -> str:
        assert self.server is not None
        return f"ws://127.0.0.1:{self.server.sockets[0].getsockname()[1]}"

    async def serve(self, socket: ServerConnection) -> None:
        self.sockets.append(socket)
        async for message in socket:
            request = orjson.loads(message)
            self.requests.append((request["method"], request["params"]))
            reply: dict[str, Any] = {"jsonrpc": "2.0", "id": request["id"]}
            if self.refuses:
                reply["error"] = {"code": -32005, "message": "too many subscriptions"}
            elif request["method"] == "signatureSubscribe":
                reply["result"], self.numbers = self.numbers, self.numbers + 1
            else:
                reply["result"] = True
            await socket.send(orjson.dumps(reply).decode())

    async def notify(self, number: int) -> None:
        result = {"context": {"slot": 7}, "value": {"err": None}}
        params = {"result": result, "subscription": number}
        message = {"jsonrpc": "2.0", "method": "signatureNotification", "params": params}
        await self.sockets[-1].send(orjson.dumps(message).decode())


@pytest.fixture
async def node() -> AsyncIterator[FakeNode]:
    made = FakeNode()
    made.server = await serve(made.serve, "127.0.0.1", 0)
    yield made
    made.server.close()
    await made.server.wait_closed()


@pytest.fixture
async def notices(node: FakeNode) -> AsyncIterator[SignatureNotices]:
    made = SignatureNotices(node.url, sleep=lambda _: asyncio.sleep(0))
    made.start()
    yield made
    await made.stop()


async def until(condition: Any) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - the condition tells nobody.
            await asyncio.sleep(0.005)


async def test_a_followed_signature_is_noticed_at_confirmed_commitment(
    node: FakeNode, notices: SignatureNotices
) -> None:
    notices.follow(FIRST)
    assert not notices.complete
    await until(lambda: notices.complete)
    assert node.requests == [("signatureSubscribe", [base58_text(FIRST), {"commitment": "confirmed"}])]
    notices.noticed.clear()
    await node.notify(0)
    await until(notices.noticed.is_set)


async def test_only_what_was_not_noticed_is_unsubscribed(node: FakeNode, notices: SignatureNotices) -> None:
    """A notice ends its subscription; the others would pile up at the node."""
    notices.follow(FIRST)
    notices.follow(SECOND)
    await until(lambda: notices.complete)
    notices.noticed.clear()
    await node.notify(0)
    await until(notices.noticed.is_set)
    over = notices._signatures[0]
    for signature in (FIRST, SECOND):
        notices.drop(signature)
    await until(lambda: len(node.requests) == 3)
    assert node.requests[-1] == ("signatureUnsubscribe", [1]) and over in (FIRST, SECOND)
    await until(lambda: not notices._subscriptions)
    assert not notices._signatures and not notices._requests


async def test_a_refused_subscription_keeps_polls_frequent(node: FakeNode, notices: SignatureNotices) -> None:
    node.refuses = True
    notices.follow(FIRST)
    await until(lambda: FIRST in notices._subscriptions and notices._subscriptions[FIRST].ended)
    assert not notices.complete
    notices.drop(FIRST)
    await until(lambda: not notices._subscriptions)
    assert notices.complete


async def test_the_loss_of_the_socket_is_noticed_at_once_and_mended(node: FakeNode, notices: SignatureNotices) -> None:
    """The racer polls meanwhile; then every race is followed again."""
    notices.follow(FIRST)
    await until(lambda: notices.complete)
    notices.noticed.clear()
    await node.sockets[0].close()
    await until(notices.noticed.is_set)
    await until(lambda: len(node.sockets) == 2 and notices.complete)
    assert [method for method, _ in node.requests] == ["signatureSubscribe"] * 2


@pytest.mark.parametrize("text", ["", "[]", "7", '{"id": []}', '{"method": "signatureNotification"}', '{"id": 999}'])
async def test_messages_that_are_none_are_passed_over(node: FakeNode, notices: SignatureNotices, text: str) -> None:
    await until(lambda: node.sockets)
    await node.sockets[0].send(text)
    notices.follow(FIRST)
    await until(lambda: notices.complete)
    assert len(node.sockets) == 1


async def test_without_a_socket_there_are_no_notices() -> None:
    notices = SignatureNotices(None)
    notices.start()
    notices.follow(FIRST)
    assert not notices.complete and not notices.noticed.is_set()
    await notices.stop()


async def test_of_very_many_races_only_some_are_subscribed_to(node: FakeNode, notices: SignatureNotices) -> None:
    """The racer polls as without a socket as long as one race has no subscription."""
    signatures = [number.to_bytes(64, "big") for number in range(FOLLOWED_MAX + 2)]
    for signature in signatures:
        notices.follow(signature)
    await until(lambda: len(node.requests) == FOLLOWED_MAX)
    await until(lambda: all(one.number is not None for one in notices._subscriptions.values()))
    assert not notices.complete
    for signature in signatures[-2:]:
        notices.drop(signature)
    assert notices.complete and len(node.requests) == FOLLOWED_MAX


async def test_many_subscriptions_leave_turns_to_others() -> None:
    """A socket that takes each request at once gives the loop back to nobody by itself."""
    sent, turns = list[str](), 0

    class Taking:
        async def send(self, request: str) -> None:
            sent.append(request)

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    notices = SignatureNotices("ws://127.0.0.1:1")
    for number in range(160):
        notices.follow(number.to_bytes(64, "big"))
    writing = asyncio.create_task(notices._write(Taking()))  # type: ignore[arg-type]
    counting = asyncio.create_task(count_turns())
    while len(sent) < 160:  # noqa: ASYNC110 - turns are what is counted.
        await asyncio.sleep(0)
    assert turns >= 160 // 16 - 1, turns
    for task in (writing, counting):
        task.cancel()
    await asyncio.gather(writing, counting, return_exceptions=True)


async def test_notices_go_on_at_another_node(node: FakeNode, notices: SignatureNotices) -> None:
    """The node that is drained is left, and the races are followed at the next one; without one nothing is complete."""
    notices.follow(FIRST)
    await until(lambda: notices.complete)
    other = FakeNode()
    other.server = await serve(other.serve, "127.0.0.1", 0)
    notices.noticed.clear()
    notices.use(other.url)
    await until(lambda: notices.complete and other.requests)
    assert notices.noticed.is_set() and len(node.requests) == 1  # The racer polls once: a notice may have been lost.
    notices.use(None)
    await until(lambda: not notices.complete)
    notices.use(node.url)
    await until(lambda: notices.complete and len(node.requests) == 2)
    other.server.close()
    await other.server.wait_closed()
