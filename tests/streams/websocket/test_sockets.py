"""Open sockets end within a second of their reason, with its code."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from actors.accounts.api import AdjustCredits, OwnerUnavailable, SetStatus
from actors.accounts.key_requests import ChangeKey, CreateKey
from actors.accounts.named_keys import KeyLimits
from actors.calls import KeyProof, ProvenProof
from actors.errors import Err, Refusal
from actors.stream_config import StreamsConfig
from actors.streams.websocket.client_streams import ClientStreams
from actors.streams.websocket.sockets import _close_of
from ledger_gateway.keys import narrow
from tests.streams.world import Sockets, ask, hear, open_sockets


@pytest.mark.parametrize(
    ("err", "key", "code", "word"),
    [
        (Err.INSUFFICIENT_CREDITS, 0, 4002, "insufficient_credits"),
        (Err.KEY_BUDGET_EXCEEDED, 3, 4002, "key_budget_exceeded"),
        (Err.HOURLY_LIMIT_EXCEEDED, 0, 4002, "hourly_limit_exceeded"),
        (Err.AUTH_FAILED, 3, 4001, "auth_failed"),
        (Err.AUTH_FAILED, 0, 1008, "policy_violation"),
        (Err.METHOD_NOT_ALLOWED, 0, 1008, "policy_violation"),
    ],
)
def test_what_its_credits_lack_has_a_close_code(err: Err, key: int, code: int, word: str) -> None:
    """The codes of the interface. A key that was frozen may be heard of by a refused charge before the next look."""
    told: list[tuple[int, str]] = []
    socket = SimpleNamespace(close=lambda code, reason: told.append((code, reason)))
    streams: Any = SimpleNamespace(socket=socket, payer=ProvenProof(b"a" * 32, key))
    ClientStreams._out_of_credits(streams, Refusal(err))
    assert [(found, reason.split(":")[0]) for found, reason in told] == [(code, word)]


def test_the_budget_of_a_key_that_is_spent_closes_its_sockets_with_4002() -> None:
    """Found by the watch, while nothing is delivered."""
    proof = KeyProof(b"h" * 32, b"r" * 8)
    assert _close_of(proof, Refusal(Err.KEY_BUDGET_EXCEEDED, "x")) == (4002, "key_budget_exceeded: x")


async def _code(socket: Any) -> int:
    with pytest.raises(ConnectionClosed) as closed:
        while True:
            await hear(socket)
    assert closed.value.rcvd is not None
    return closed.value.rcvd.code


async def _session(sockets: Sockets, wallet: Any) -> str:
    http = sockets.world.http
    challenge = (await http.post("/auth/challenge", json={"pubkey": wallet.text})).json()["challenge"]
    signed = {"pubkey": wallet.text, "challenge": challenge, "signature": wallet.sign(challenge)}
    body = (await http.post("/auth/verify", json=signed)).json()
    return str(body.get("session_token") or body["token"])


async def test_every_reason_has_its_code() -> None:
    """Row 31: key replaced 4001, session over 1008, suspended 1008, balance below 10: 4002; others go on."""
    async with open_sockets() as sockets:
        world = sockets.world
        kept, rotated, ended, suspended, poor = [await world.customer(credits=100) for _ in range(5)]
        token = await _session(sockets, ended)
        bearer = {"additional_headers": {"authorization": f"Bearer {token}"}}
        async with (
            sockets.connect(kept) as one,
            sockets.connect(rotated) as two,
            sockets.connect(None, **bearer) as three,
            sockets.connect(suspended) as four,
            sockets.connect(poor) as five,
            sockets.connect(rotated, additional_headers=rotated.headers("GET", "/ws", b"")) as six,
        ):
            await sockets.watch.check()
            await world.http.post(
                "/account/api-key", content=b"{}", headers=rotated.headers("POST", "/account/api-key", b"{}")
            )
            await world.http.post("/auth/logout", headers={"authorization": f"Bearer {token}"})
            await world.shard.ask(SetStatus(suspended.pubkey, "suspended", "test"))
            await world.shard.ask(AdjustCredits(poor.pubkey, -91, "test", "less"))
            await sockets.watch.check()
            assert [await _code(socket) for socket in (two, three, four, five)] == [4001, 1008, 1008, 4002]
            for socket in (one, six):  # A wallet's own signature does not depend on the key.
                assert "result" in await ask(socket, "getSlot")
        assert len(sockets.sockets) == 0


async def test_checks_do_not_prolong_a_session() -> None:
    """A socket that stays open must not keep its session alive for ever."""
    async with open_sockets(identity={"session_seconds": 100}) as sockets:
        wallet = await sockets.world.customer(credits=100)
        token = await _session(sockets, wallet)
        async with sockets.connect(None, additional_headers={"authorization": f"Bearer {token}"}) as socket:
            for _ in range(3):
                sockets.world.clock.advance(30)
                await sockets.watch.check()
            assert "result" in await ask(socket, "getSlot")  # Use prolongs it.
            sockets.world.clock.advance(60)
            await sockets.watch.check()
            assert "result" in await ask(socket, "getSlot")
            sockets.world.clock.advance(101)
            await sockets.watch.check()
            assert await _code(socket) == 1008


async def test_all_sockets_of_a_credential_are_asked_for_once() -> None:
    """Never one question for each socket; an owner that is away ends nobody."""
    async with open_sockets() as sockets:
        wallet = await sockets.world.customer(credits=100)
        asked: list[int] = []
        ask_many = sockets.world.accounts.ask_many

        async def counted(commands: Any) -> Any:
            asked.append(len(commands))
            return await ask_many(commands)

        sockets.world.accounts.ask_many = counted  # type: ignore[method-assign]
        origins = [f"https://{number}.example" for number in range(20)]  # The client's choice.
        opened = await asyncio.gather(*(sockets.connect(wallet, origin=origin) for origin in origins))
        await sockets.watch.check()
        assert asked == [1] and len(sockets.sockets) == 20
        sockets.world.accounts.down = True
        with pytest.raises(OwnerUnavailable):
            await sockets.watch.check()
        sockets.world.accounts.down = False
        assert "result" in await ask(opened[0], "getSlot")
        for socket in opened:
            await socket.close()


async def test_sockets_of_a_key_that_is_bound_to_a_place_stay_open_until_the_key_ends() -> None:
    """The place is judged by the handshake and by each call; the check that follows asks about neither."""
    async with open_sockets() as sockets:
        wallet, shard = await sockets.world.customer(credits=100), sockets.world.shard
        limits = KeyLimits(addresses=("127.0.0.1/32",), origins=("https://a.example", "https://b.example"))
        made = (await shard.ask(CreateKey(wallet.pubkey, "bot", limits))).value
        assert made is not None
        child = narrow(made.text, "child", origins=["https://a.example"])
        elsewhere = await sockets.connect(additional_headers={"x-api-key": child}, origin="https://b.example")
        assert await _code(elsewhere) == 4001
        sockets.world.clock.advance(10)  # A child that was refused is not looked at for some seconds.
        texts = (made.text, "https://b.example"), (child, "https://a.example")
        opened = [
            await sockets.connect(additional_headers={"x-api-key": text}, origin=origin) for text, origin in texts
        ]
        for _ in range(2):
            await sockets.watch.check()
            for socket in opened:
                assert "result" in await ask(socket, "getSlot")
        await shard.ask(ChangeKey(wallet.pubkey, 1, is_frozen=True))
        await sockets.watch.check()
        assert [await _code(socket) for socket in opened] == [4001, 4001]


async def test_sockets_have_a_limit_for_each_account() -> None:
    """When full: 503, and room again once one has closed."""
    async with open_sockets(streams=StreamsConfig(sockets_per_account_max=1)) as sockets:
        wallet, other = [await sockets.world.customer(credits=100) for _ in range(2)]
        async with sockets.connect(wallet), sockets.connect(other):
            with pytest.raises(InvalidStatus) as refused:
                await sockets.connect(wallet)
            assert refused.value.response.status_code == 503
        async with sockets.connect(wallet) as socket:
            assert "result" in await ask(socket, "getSlot")


async def test_a_process_that_leaves_closes_its_sockets_with_1012() -> None:
    """As many as it is told, the oldest first. A call under way is answered and charged before; what the client sends
    then is not carried out, so it costs nothing. New handshakes are refused with 503 meanwhile, free."""
    async with open_sockets() as sockets:
        world, service = sockets.world, sockets.sockets
        busy, idle, kept = [await world.customer(credits=100) for _ in range(3)]
        async with sockets.connect(busy) as one, sockets.connect(idle) as two, sockets.connect(kept) as three:
            assert "result" in await ask(two, "slotSubscribe")
            world.node.gate = asyncio.Event()
            call = asyncio.create_task(ask(one, "getSlot"))
            await world.node.asked.wait()
            service.stop_taking()
            with pytest.raises(InvalidStatus) as refused:
                await sockets.connect(kept)
            assert refused.value.response.status_code == 503
            service.end_some(2)
            assert service.left == 1
            assert await _code(two) == 1012
            await one.send('{"jsonrpc":"2.0","id":2,"method":"getSlot"}')
            world.node.gate.set()
            assert "result" in await call
            assert await _code(one) == 1012
            assert "result" in await ask(three, "getSlot")
            service.end_some(9)
            assert service.left == 0 and await _code(three) == 1012
        spent = [100 - await world.balance(wallet) for wallet in (busy, idle, kept)]
        assert spent == [1, 5, 1] and len(service) == 0
