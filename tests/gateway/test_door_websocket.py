"""Handshakes: who may open a socket, and what everybody else hears."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import httpx
import orjson
import pytest
from websockets.exceptions import InvalidStatus
from websockets.typing import Subprotocol

from actors.accounts.api import SetStatus
from actors.gateway import door_websocket
from actors.gateway.door_websocket import PATHS
from actors.http_server import websocket
from tests.streams.world import ask, open_sockets


async def _refusal(sockets: Any, wallet: Any = None, **options: Any) -> tuple[int, dict[str, Any], Any]:
    with pytest.raises(InvalidStatus) as refused:
        async with sockets.connect(wallet, **options):
            pass
    response = refused.value.response
    return response.status_code, orjson.loads(response.body), response.headers


@pytest.mark.parametrize("path", [path.decode() for path in PATHS])
async def test_a_socket_opens_on_every_path_of_the_interface(path: str) -> None:
    """web3.js goes to the path of the URL, others to /ws."""
    async with open_sockets() as sockets:
        wallet = await sockets.world.customer(credits=100)
        async with sockets.connect(wallet, path=path) as socket:
            assert "result" in await ask(socket, "getSlot")


async def test_a_plain_request_is_told_that_the_path_is_a_websocket() -> None:
    """A 404 would say that there is nothing. Paths that take calls as well answer those as ever."""
    async with open_sockets() as sockets, httpx.AsyncClient(base_url=f"http://127.0.0.1:{sockets.port}") as http:
        plain = await http.get("/ws")
        assert (plain.status_code, plain.json()["error"]["code"]) == (400, "INVALID_REQUEST")
        assert "is a WebSocket" in plain.json()["error"]["message"]
        assert (await http.get("/rpc")).status_code == 404


async def test_every_credential_of_the_interface_opens_a_socket() -> None:
    """Authentication: header, parameter of the URL, subprotocol pair, wallet signature, session token."""
    async with open_sockets() as sockets:
        world = sockets.world
        wallet = await world.customer(credits=100)
        challenge = (await world.http.post("/auth/challenge", json={"pubkey": wallet.text})).json()["challenge"]
        verified = await world.http.post(
            "/auth/verify",
            json={"pubkey": wallet.text, "challenge": challenge, "signature": wallet.sign(challenge)},
        )
        token = verified.json()["session_token" if "session_token" in verified.json() else "token"]
        pair = [Subprotocol(f"auth.{wallet.api_key}"), Subprotocol("solana-rpc")]
        ways: list[dict[str, Any]] = [
            {"additional_headers": {"x-api-key": wallet.api_key}},
            {"path": f"/ws?api-key={wallet.api_key}"},
            {"subprotocols": pair},
            {"additional_headers": wallet.headers("GET", "/ws", b"")},
            {"additional_headers": {"authorization": f"Bearer {token}"}},
        ]
        for way in ways:
            async with sockets.connect(None, **way) as socket:
                assert "result" in await ask(socket, "getSlot"), way
                assert socket.subprotocol == ("solana-rpc" if "subprotocols" in way else None)


async def test_a_refused_handshake_is_answered_as_a_refused_call() -> None:
    """Interface, "HTTP statuses and bodies": status, body, terms; never a bare 403."""
    async with open_sockets(accounts={"requests_per_second": 100}) as sockets:
        world = sockets.world
        status, body, headers = await _refusal(sockets)
        assert status == 402 and body["error"]["data"]["deposit_address"] and headers["payment-required"]
        status, body, _ = await _refusal(sockets, additional_headers={"x-api-key": "srpc_live_" + "A" * 43})
        assert status == 401 and body["error"]["code"] == "AUTH_FAILED"
        poor = await world.customer(credits=9)
        status, body, _ = await _refusal(sockets, poor)
        assert status == 402 and body["error"]["code"] == "INSUFFICIENT_CREDITS"
        signed = poor.headers("GET", "/ws", b"")
        assert (await _refusal(sockets, additional_headers=signed))[0] == 402
        status, body, _ = await _refusal(sockets, additional_headers=signed)
        assert status == 403 and body["error"]["code"] == "NONCE_REUSED"
        suspended = await world.customer(credits=100)
        await world.shard.ask(SetStatus(suspended.pubkey, "suspended", "test"))
        assert (await _refusal(sockets, suspended))[0] == 403
        two = [Subprotocol(f"auth.{poor.api_key}"), Subprotocol(f"auth.{suspended.api_key}")]
        assert (await _refusal(sockets, subprotocols=two))[0] == 401
        world.accounts.down = True
        assert (await _refusal(sockets, poor))[0] == 503


async def test_a_flood_of_refused_handshakes_has_to_wait() -> None:
    """Hostile input 35: 429 with Retry-After, as for calls."""
    async with open_sockets(gateway={"address_refusals_per_second": 2}) as sockets:
        statuses = []
        for _ in range(4):
            status, _, headers = await _refusal(sockets)
            statuses.append(status)
        assert statuses[-1] == 429 and int(headers["retry-after"]) >= 1


async def test_row_30_unfinished_messages_of_one_account_leave_room_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hostile input 30: the account's own socket is closed with 1013, and another account is served."""
    monkeypatch.setattr(door_websocket, "UNFINISHED_ACCOUNT_BYTES_MAX", 100_000)
    monkeypatch.setattr(websocket, "LINGER_SECONDS", 0.05)
    async with open_sockets(gateway={"body_bytes_max": 50_000}) as sockets, contextlib.AsyncExitStack() as stack:
        hog, honest = await sockets.world.customer(credits=100), await sockets.world.customer(credits=100)
        opened = [await stack.enter_async_context(sockets.connect(hog)) for _ in range(3)]
        sending = [asyncio.create_task(one.send(_never_ends("x" * 20_000, "x" * 20_000))) for one in opened]
        closing = [asyncio.create_task(one.wait_closed()) for one in opened]
        done, _ = await asyncio.wait(closing, timeout=10, return_when=asyncio.FIRST_COMPLETED)
        assert [opened[closing.index(task)].close_code for task in done] == [1013]
        async with sockets.connect(honest) as socket:
            assert (await ask(socket, "nothing", "x" * 30_000))["error"]["code"] == -32601
            assert "result" in await ask(socket, "getSlot")
        for task in (*sending, *closing):
            task.cancel()


async def _never_ends(*parts: str) -> AsyncIterator[str]:
    """The fragments of a message, and then nothing for ever."""
    for part in parts:
        yield part
    await asyncio.Event().wait()
