"""Calls and subscriptions on an open socket, through the real door."""

import asyncio
from typing import Any

import orjson
import pytest
from websockets.exceptions import ConnectionClosed

from actors.errors import Err
from actors.gateway.doors.websocket import session as socket_session
from actors.gateway.doors.websocket.session import SocketSession
from actors.http_server.websocket import BUFFERED_BYTES_MAX
from tests.streams.world import ACCOUNT, account_value, ask, hear, open_sockets


async def test_a_call_on_a_socket_costs_what_it_costs_over_http() -> None:
    """Interface: plain calls on the same socket, billed as over HTTP; batches too, each item with its own verdict."""
    async with open_sockets() as sockets:
        wallet = await sockets.world.customer(credits=1_000)
        async with sockets.connect(wallet) as socket:
            answer = await ask(socket, "getSlot", id="a")
            assert answer["id"] == "a" and "result" in answer
            await socket.send(
                orjson.dumps(
                    [
                        {"jsonrpc": "2.0", "id": 1, "method": "getSlot"},
                        {"jsonrpc": "2.0", "id": 2, "method": "getNothing"},
                        {"jsonrpc": "2.0", "method": "getSlot"},
                    ]
                )
            )
            one, two, three = await hear(socket)
            assert "result" in one and two["error"]["code"] == -32601 and three["error"]["code"] == -32600
        assert await sockets.world.debits(wallet) == [("getSlot", 1), ("getSlot", 1)]
        assert len(sockets.world.accounts.delivered_operations) == 2


async def test_what_is_no_call_gets_an_error_and_costs_nothing() -> None:
    """Threat 10 on a socket. Clients of the chain send `ping` without an id, which gets no answer."""
    async with open_sockets() as sockets:
        wallet = await sockets.world.customer(credits=100)
        async with sockets.connect(wallet) as socket:
            for text in ("[]", '{"jsonrpc":"2.0","method":"getSlot"}', '{"id":1,"method":"getSlot"}'):
                await socket.send(text)
                assert (await hear(socket))["error"]["code"] == -32600, text
            await socket.send('{"jsonrpc":"2.0","method":"ping"}')
            assert "result" in await ask(socket, "getSlot")
            answer = await ask(socket, "accountSubscribe", "nobody")
            assert answer["error"]["code"] == -32602
            assert (await ask(socket, "accountUnsubscribe", 7))["error"]["code"] == -32602
        assert await sockets.world.balance(wallet) == 99


async def test_a_batch_with_subscriptions_is_answered_as_one_array() -> None:
    """JSON-RPC 2.0, in the order of the calls; notifications come behind it, even of what happened meanwhile."""
    async with open_sockets() as sockets:
        wallet = await sockets.world.customer(credits=100)
        async with sockets.connect(wallet) as socket:
            calls = [
                {"jsonrpc": "2.0", "id": 1, "method": "accountSubscribe", "params": [ACCOUNT]},
                {"jsonrpc": "2.0", "id": 2, "method": "getSlot"},
                {"jsonrpc": "2.0", "id": 3, "method": "accountSubscribe", "params": ["nobody"]},
                {"jsonrpc": "2.0", "method": "getSlot"},
                {"jsonrpc": "2.0", "id": 5, "method": "accountUnsubscribe", "params": [7]},
            ]
            settle = sockets.world.accounts.settle

            async def settle_late(request: Any) -> Any:
                if request.method == "getSlot":  # The subscription is open by now, and the array is not written.
                    await sockets.node.until("accountSubscribe", 1)
                    await sockets.node.notify("accountSubscribe", account_value(5, 101))
                    await asyncio.sleep(0.05)  # For the notification, which waits for the array.
                return await settle(request)

            sockets.world.accounts.settle = settle_late  # type: ignore[method-assign]
            await socket.send(orjson.dumps(calls).decode())
            answers = await hear(socket)
            assert [answer["id"] for answer in answers] == [1, 2, 3, None, 5]
            assert answers[0]["result"] == 1 and "result" in answers[1]
            assert [answer["error"]["code"] for answer in answers[2:]] == [-32602, -32600, -32602]
            assert (await hear(socket))["params"]["subscription"] == 1
            await socket.send(orjson.dumps(calls[-1:]).decode())
            assert [answer["id"] for answer in await hear(socket)] == [5]


async def test_an_answer_whose_charge_was_withdrawn_does_not_leave() -> None:
    """Money rule 2: as over HTTP, the error says that nothing is charged."""
    async with open_sockets() as sockets:
        wallet = await sockets.world.customer(credits=100)
        sockets.world.accounts.in_touch, sockets.world.accounts.gives_up = False, True
        async with sockets.connect(wallet) as socket:
            answer = await ask(socket, "getSlot")
            assert answer["error"]["data"]["constant"] == Err.SERVICE_TEMPORARILY_UNAVAILABLE.name
        assert sockets.world.accounts.delivered_operations == []


async def test_a_replaced_key_ends_the_socket_at_its_next_call() -> None:
    """Threat 31: no further billing, whenever the checks come."""
    async with open_sockets() as sockets:
        wallet = await sockets.world.customer(credits=100)
        async with sockets.connect(wallet) as socket:
            await sockets.world.http.post(
                "/account/api-key", content=b"{}", headers=wallet.headers("POST", "/account/api-key", b"{}")
            )
            assert "error" in await ask(socket, "getSlot")
            with pytest.raises(ConnectionClosed) as closed:
                await hear(socket)
            assert closed.value.rcvd is not None and closed.value.rcvd.code == 1008


@pytest.mark.parametrize("who", ["the service", "the client"])
async def test_a_call_in_flight_is_free_when_the_service_closes_the_socket(who: str) -> None:
    """Money rule 2, threat 36: a client that leaves after the answer pays; one that is sent away does not."""
    async with open_sockets() as sockets:
        wallet = await sockets.world.customer(credits=100)
        accounts, settling, ended = sockets.world.accounts, asyncio.Event(), asyncio.Event()
        settle, void = accounts.settle, accounts.void

        async def settle_late(request: Any) -> Any:
            if not settling.is_set():
                settling.set()
                await asyncio.Event().wait()
            reply = await settle(request)
            ended.set()
            return reply

        def void_and_tell(request: Any) -> None:
            void(request)
            ended.set()

        accounts.settle, accounts.void = settle_late, void_and_tell  # type: ignore[method-assign]
        async with sockets.connect(wallet) as socket:
            await socket.send('{"jsonrpc":"2.0","id":1,"method":"getSlot"}')
            await settling.wait()
            if who == "the service":
                signed = wallet.headers("POST", "/account/api-key", b"{}")
                replaced = await sockets.world.http.post("/account/api-key", content=b"{}", headers=signed)
                await socket.send('{"jsonrpc":"2.0","id":2,"method":"getSlot"}')
                await socket.wait_closed()
                assert socket.close_code == 1008
                wallet.api_key = replaced.json()["api_key"]
        await ended.wait()
        await asyncio.sleep(0.1)  # For a void, which no one waits for.
        assert await sockets.world.debits(wallet) == ([] if who == "the service" else [("getSlot", 1)])
        assert await sockets.world.balance(wallet) == (100 if who == "the service" else 99)


class _Slow:
    """A full socket whose client takes so many bytes between two looks."""

    is_open = is_full = True

    def __init__(self, per_look: int) -> None:
        self._per_look, self.looks, self._taken = per_look, 0, 0
        self.end: tuple[int, str] | None = None

    @property
    def taken_bytes(self) -> int:
        self.looks += 1
        self._taken += self._per_look
        return self._taken

    def close(self, code: int, reason: str) -> None:
        self.is_open, self.end = False, (code, reason)


async def test_a_slow_client_may_take_long_over_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threat 30: one that takes nothing is let go with 1013; one that takes some goes on until it has all."""
    monkeypatch.setattr(socket_session, "_TAKES_NOTHING_SECONDS_MAX", 0.001)
    unused: Any = None
    for per_look, is_ended in ((0, True), (BUFFERED_BYTES_MAX - 1, True), (BUFFERED_BYTES_MAX, False)):
        session = SocketSession(unused, unused, unused, unused, {}, lambda: "id", unused)
        slow: Any = _Slow(per_look)
        session._socket = slow
        session._drained.clear()
        waiting = asyncio.create_task(session._until_taken())
        while not waiting.done() and slow.looks < 20:  # noqa: ASYNC110 - a look tells nobody.
            await asyncio.sleep(0)
        assert waiting.done() is is_ended
        session._drained.set()
        await waiting
        assert slow.end == ((1013, "the client takes nothing of its answers") if is_ended else None)
