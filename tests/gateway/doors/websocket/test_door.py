"""Handshakes: who may open a socket, and what everybody else hears."""

import asyncio
import contextlib
import gc
from collections.abc import AsyncIterator
from typing import Any

import httpx
import orjson
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.typing import Subprotocol

from actors.accounts.api import SetStatus
from actors.gateway.doors.websocket import door as door_websocket
from actors.gateway.doors.websocket.door import HANDSHAKE_COST, PATHS
from actors.http_server import websocket
from actors.stream_config import StreamsConfig
from tests.gateway.world import Wallet
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
        assert (await http.get("/rpc")).status_code == 405


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


async def _closed(sockets: Any, wallet: Any = None, **options: Any) -> tuple[int, str]:
    """The close code and the reason of a handshake that is accepted and closed at once."""
    async with asyncio.timeout(10), sockets.connect(wallet, **options) as socket:
        with pytest.raises(ConnectionClosed) as closed:
            await socket.recv()
    assert closed.value.rcvd is not None
    return closed.value.rcvd.code, closed.value.rcvd.reason


async def test_a_refused_credential_is_a_close_code_with_its_remedy() -> None:
    """Decisions, "WebSocket refusals": a browser sees no HTTP status, and takes 1006 for a lost network."""
    async with open_sockets() as sockets:
        world = sockets.world
        bad_key = "srpc_live_" + "A" * 43
        poor, suspended = await world.customer(credits=9), await world.customer(credits=100)
        await world.shard.ask(SetStatus(suspended.pubkey, "suspended", "test"))
        signed = poor.headers("GET", "/ws", b"")
        rows: list[tuple[Any, dict[str, Any], int, str]] = [
            (None, {}, 4002, "insufficient_credits: no credential was sent"),
            (None, {"additional_headers": {"x-api-key": bad_key}}, 4001, "auth_failed"),
            (None, {"path": f"/ws?api-key={bad_key}"}, 4001, "auth_failed"),
            (None, {"path": "/ws?api-key=x"}, 4001, "auth_failed"),
            (None, {"additional_headers": {"authorization": "Bearer " + "0" * 64}}, 1008, "policy_violation"),
            (None, {"additional_headers": {"authorization": "Bearer x"}}, 1008, "policy_violation"),
            (
                None,
                {"additional_headers": Wallet(999, world.clock).headers("GET", "/ws", b"")},
                4002,
                "insufficient_credits",
            ),
            (poor, {}, 4002, "insufficient_credits"),
            (None, {"additional_headers": signed}, 4002, "insufficient_credits"),
            (None, {"additional_headers": signed}, 4001, "auth_failed: nonce already used"),
            (None, {"additional_headers": signed | {"x-nonce": "another"}}, 4001, "auth_failed"),
            (suspended, {}, 1008, "policy_violation: this account is suspended"),
            (None, {"subprotocols": [Subprotocol(f"auth.{key}") for key in (bad_key, "b")]}, 4001, "auth_failed: two"),
        ]
        for number, (wallet, options, code, says) in enumerate(rows):
            closed, reason = await _closed(sockets, wallet, **options)
            assert (closed, reason[: len(says)]) == (code, says), (number, reason)
            sockets.world.clock.advance(1)
        assert len(sockets.sockets) == 0


async def test_a_browser_gets_its_subprotocol_before_it_is_refused() -> None:
    """Without it the browser would end the handshake itself, and report 1006."""
    async with open_sockets() as sockets:
        pair = [Subprotocol("auth.srpc_live_" + "A" * 43), Subprotocol("solana-rpc")]
        async with sockets.connect(None, subprotocols=pair) as socket:
            assert socket.subprotocol == "solana-rpc"
            await socket.wait_closed()
            assert socket.close_code == 4001


async def test_the_handshake_says_whether_all_reads_of_the_socket_are_monotonic() -> None:
    """Decisions, "Monotonic reads": calls and batches of the socket ask for the view of their account."""
    async with open_sockets() as sockets:
        wallet, holds = await sockets.world.customer(credits=100), sockets.world.accounts.holds
        for word, wanted in (("monotonic", True), ("any", False)):
            before = len(holds)
            sent = {"x-consistency": word, "x-api-key": wallet.api_key}
            async with sockets.connect(None, additional_headers=sent) as socket:
                for _ in range(2):
                    await ask(socket, "getSlot")
                await socket.send('[{"jsonrpc":"2.0","id":1,"method":"getSlot"},{"jsonrpc":"2.0","id":2}]')
                assert len(orjson.loads(await socket.recv())) == 2
            told = [request.reads_view for request in holds[before:] if request.items]
            assert told and set(told) == {wanted}


@pytest.mark.parametrize("words", [("strong",), ("",), ("any", "any")])
async def test_a_handshake_with_another_word_is_400(words: tuple[str, ...]) -> None:
    async with open_sockets() as sockets:
        wallet = await sockets.world.customer(credits=100)
        sent = [("x-consistency", word) for word in words]
        status, body, _ = await _refusal(sockets, wallet, additional_headers=sent)
        assert (status, body["error"]["code"]) == (400, "INVALID_REQUEST")
        assert "X-Consistency must be any or monotonic" in body["error"]["message"]


async def test_what_connecting_again_may_mend_keeps_its_http_status() -> None:
    async with open_sockets(streams=StreamsConfig(sockets_per_account_max=1)) as sockets:
        wallet = await sockets.world.customer(credits=100)
        async with sockets.connect(wallet):
            assert (await _refusal(sockets, wallet))[0] == 503
        sockets.world.accounts.down = True
        assert (await _refusal(sockets, wallet))[0] == 503


async def test_a_flood_of_refused_handshakes_has_to_wait() -> None:
    """Threats 35 and 59: 429 with Retry-After, as for calls; each counts by its cost."""
    async with open_sockets(gateway={"address_refusals_per_second": 2 * HANDSHAKE_COST}) as sockets:
        assert [(await _closed(sockets))[0] for _ in range(2)] == [4002] * 2
        status, _, headers = await _refusal(sockets)
        assert status == 429 and int(headers["retry-after"]) >= 1


@pytest.mark.parametrize("limit", ["account_handshakes_per_second", "address_handshakes_per_second"])
@pytest.mark.threat(59)
async def test_a_flood_of_good_handshakes_is_refused_with_http(limit: str) -> None:
    """And who goes on is refused before the account's owner is asked."""
    few = {"account_refusals_per_second": HANDSHAKE_COST, "address_refusals_per_second": HANDSHAKE_COST}
    settings: dict[str, Any] = {"gateway": {limit: 3, **few}, "accounts": {"requests_per_second": 10}}
    async with open_sockets(**settings) as sockets:
        wallet, other = [await sockets.world.customer(credits=100) for _ in range(2)]
        for _ in range(3):
            async with sockets.connect(wallet) as socket:
                await socket.ping()
        for _ in range(2):
            status, _, headers = await _refusal(sockets, wallet)
            assert status == 429 and int(headers["retry-after"]) >= 1
            sockets.world.accounts.down = limit.startswith("account")
        sockets.world.accounts.down = False
        if limit.startswith("account"):
            async with sockets.connect(other) as socket:
                assert "result" in await ask(socket, "getSlot")
        sockets.world.clock.advance(1)
        async with sockets.connect(wallet) as socket:
            assert "result" in await ask(socket, "getSlot")


async def test_open_sockets_of_one_address_leave_room_for_others() -> None:
    async with open_sockets(streams=StreamsConfig(sockets_per_address_max=2)) as sockets:
        one, two, three = [await sockets.world.customer(credits=100) for _ in range(3)]
        async with sockets.connect(one), sockets.connect(two):
            assert (await _refusal(sockets, three))[0] == 503
        async with sockets.connect(three) as socket:
            assert "result" in await ask(socket, "getSlot")
        assert not sockets.sockets._by_address or set(sockets.sockets._by_address.values()) == {1}


@pytest.mark.threat(59)
async def test_a_connection_that_ended_leaves_nothing_to_the_garbage_collector() -> None:
    """Its pass over the objects of a flood of handshakes holds the loop."""
    async with open_sockets() as sockets:
        wallet = await sockets.world.customer(credits=100)

        async def open_and_close() -> None:
            async with sockets.connect(wallet) as socket:
                assert "result" in await ask(socket, "getSlot")

        await open_and_close()
        gc.collect()
        gc.set_debug(gc.DEBUG_SAVEALL)
        try:
            for _ in range(3):
                await open_and_close()
            await asyncio.sleep(0.1)  # The server has to hear of the end.
            gc.collect()
            left = {type(found).__qualname__ for found in gc.garbage}
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
        assert not left & {"HttpServer", "HttpRequest", "WebSocket", "ServerProtocol", "SocketSession", "ClientStreams"}


@pytest.mark.threat(30)
async def test_unfinished_messages_of_one_account_leave_room_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threat 30: the account's own socket is closed with 1013, and another account is served."""
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
