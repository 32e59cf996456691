"""Refused calls on an open socket: they are limited as over HTTP, and who goes on has to leave."""

import asyncio
from typing import Any

import orjson
import pytest
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed, InvalidStatus

from actors.gateway.doors.websocket import session as socket_session
from tests.streams.world import ask, hear, open_sockets

UNKNOWN_METHOD = '{"jsonrpc":"2.0","id":7,"method":"getNothing"}'


def few(refusals: int) -> dict[str, Any]:
    """Settings: an account that may make more requests may have as many refused."""
    return {
        "gateway": {"account_refusals_per_second": refusals},
        "accounts": {"requests_per_second": refusals},
    }


def _call(method: str, *params: Any) -> str:
    return orjson.dumps({"jsonrpc": "2.0", "id": 7, "method": method, "params": params}).decode()


async def _told(socket: ClientConnection, text: str) -> Any:
    await socket.send(text)
    said = await hear(socket)
    return said[0] if isinstance(said, list) else said


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("{", -32700),
        ("[]", -32600),
        ('{"jsonrpc":"2.0","method":"getSlot"}', -32600),
        (UNKNOWN_METHOD, -32601),
        (_call("getBalance", 7), -32602),
        (_call("accountSubscribe", "nobody"), -32602),
        (_call("accountUnsubscribe", 7), -32602),
        (f"[{_call('accountSubscribe', 'nobody')},{_call('slotUnsubscribe', 7)}]", -32602),
    ],
)
async def test_refused_calls_on_a_socket_are_limited_as_over_http(text: str, code: int) -> None:
    """README, "When full": beyond the limit RATE_LIMITED with a hint, without a message to the account's owner."""
    async with open_sockets(**few(4)) as sockets:
        wallet, other = [await sockets.world.customer(credits=100) for _ in range(2)]
        async with sockets.connect(wallet) as socket, sockets.connect(other) as neighbour:
            for _ in range(2 if text.startswith("[{") else 4):
                assert (await _told(socket, text))["error"]["code"] == code
            await asyncio.sleep(0)
            sockets.world.accounts.down = True  # Nobody asks it.
            waits = await _told(socket, text)
            assert waits["error"]["code"] == -32005 and waits["error"]["data"]["retry_after_secs"] == 1
            sockets.world.accounts.down = False
            assert (await ask(socket, "getSlot"))["error"]["code"] == -32005
            assert "result" in await ask(neighbour, "getSlot")
            sockets.world.clock.advance(1)
            assert "result" in await ask(socket, "getSlot")


async def test_a_socket_that_does_not_wait_is_closed_with_4003() -> None:
    async with open_sockets(**few(4)) as sockets:
        wallet = await sockets.world.customer(credits=100)
        async with sockets.connect(wallet) as socket:
            for _ in range(4 + socket_session.WAITS_MAX):
                assert "error" in await _told(socket, UNKNOWN_METHOD)
            with pytest.raises(ConnectionClosed) as closed:
                await _told(socket, UNKNOWN_METHOD)
            assert closed.value.rcvd is not None and closed.value.rcvd.code == 4003
        with pytest.raises(InvalidStatus) as refused:
            await sockets.connect(wallet)
        assert refused.value.response.status_code == 429
        assert await sockets.world.balance(wallet) == 100


@pytest.mark.threat(59)
async def test_a_socket_that_breaks_a_rule_counts_by_its_cost() -> None:
    """Who opens socket after socket to flood them is refused at the handshake."""
    limits = {"account_refusals_per_second": 2 * socket_session.BREACH_COST, "socket_messages_per_second_max": 10}
    async with open_sockets(gateway=limits) as sockets:
        wallet = await sockets.world.customer(credits=100)
        for _ in range(2):
            async with sockets.connect(wallet) as socket:
                for _ in range(30):
                    await socket.pong()
                await socket.wait_closed()
                assert socket.close_code == 4003
        with pytest.raises(InvalidStatus) as refused:
            await sockets.connect(wallet)
        assert refused.value.response.status_code == 429


async def test_what_is_no_json_is_a_parse_error_of_nobody_and_a_long_one_counts_for_more() -> None:
    async with open_sockets(**few(10)) as sockets:
        wallet = await sockets.world.customer(credits=100)
        async with sockets.connect(wallet) as socket:
            told = await _told(socket, "{")
            assert told["id"] is None and told["error"]["code"] == -32700
            assert told["error"]["data"]["source"] == "gateway"
            assert (await _told(socket, "[" + "1" * 40_000))["error"]["code"] == -32700
            assert (await _told(socket, "{"))["error"]["code"] == -32005
