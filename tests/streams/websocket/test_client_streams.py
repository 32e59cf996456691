"""One client's subscriptions: charged, limited, metered, and ended clearly. Through the real door."""

import asyncio
import json
from typing import Any

import orjson
import pytest
from websockets.exceptions import ConnectionClosed

from actors.calls import ProvenProof
from actors.errors import Err, Refusal
from actors.metering.api import Sink, StreamEvent
from actors.metering.meters import HeldCharge
from actors.stream_config import StreamsConfig
from actors.streams.websocket.kinds import METER_NAME
from tests.streams.world import ACCOUNT, account_value, ask, hear, open_sockets


async def test_a_subscription_costs_five_and_ten_notifications_one() -> None:
    """Settled: 5 a subscription, 1 per 10 notifications, unsubscribe free; refused ones are free."""
    async with open_sockets() as sockets:
        wallet = await sockets.world.customer(credits=1_000)
        async with sockets.connect(wallet) as socket:
            assert (await ask(socket, "accountSubscribe", ACCOUNT))["result"] == 1
            sockets.node.refuses["voteSubscribe"] = {"code": -32601, "message": "Method not found"}
            refused = await ask(socket, "voteSubscribe")
            assert refused["error"] == {"code": -32601, "message": "Method not found"}
            for number in range(25):
                await sockets.node.notify("accountSubscribe", account_value(number, 101 + number))
                said = await hear(socket)
                assert said["method"] == "accountNotification" and said["params"]["subscription"] == 1
                assert said["params"]["result"] == account_value(number, 101 + number)
            assert (await ask(socket, "accountUnsubscribe", 1))["result"] is True
            assert (await ask(socket, "accountUnsubscribe", 1))["error"]["code"] == -32602
        await sockets.meters.stop()
        assert await sockets.world.debits(wallet) == [("accountSubscribe", 5), (METER_NAME, 2)]
        assert await sockets.world.balance(wallet) == 1_000 - 7


async def test_the_subscription_after_the_last_is_refused_for_free() -> None:
    """Row 30: -32000 'Subscription limit reached (100/100)'; an unsubscribe makes room."""
    async with open_sockets(accounts={"requests_per_second": 1_000}) as sockets:
        wallet = await sockets.world.customer(credits=1_000)
        async with sockets.connect(wallet) as socket:
            for number in range(1, 101):
                assert (await ask(socket, "slotSubscribe"))["result"] == number
            error = (await ask(socket, "slotSubscribe"))["error"]
            assert (error["code"], error["message"]) == (-32000, "Subscription limit reached (100/100)")
            await ask(socket, "slotUnsubscribe", 7)
            assert (await ask(socket, "rootSubscribe"))["result"] == 101
        assert sum(credits for _, credits in await sockets.world.debits(wallet)) >= 505


async def test_a_signature_ends_by_itself() -> None:
    """As on a node: after its last notification the subscription is gone, `receivedSignature` is not the last."""
    async with open_sockets() as sockets:
        wallet = await sockets.world.customer(credits=1_000)
        async with sockets.connect(wallet) as socket:
            number = (await ask(socket, "signatureSubscribe", "5" * 87, {"enableReceivedNotification": True}))["result"]
            for value in ("receivedSignature", {"err": None}):
                await sockets.node.notify("signatureSubscribe", {"context": {"slot": 101}, "value": value})
                assert (await hear(socket))["params"]["result"]["value"] == value
            assert (await ask(socket, "signatureUnsubscribe", number))["error"]["code"] == -32602
        assert len(sockets.hub.hub.topics) == 0


async def test_a_gap_is_told_for_free() -> None:
    """Settled: `gapNotification` with from_slot, to_slot and the reason."""
    async with open_sockets() as sockets:
        wallet = await sockets.world.customer(credits=1_000)
        async with sockets.connect(wallet) as socket:
            number = (await ask(socket, "logsSubscribe", "all"))["result"]
            sockets.node.cut()
            said = await hear(socket)
            assert said["method"] == "gapNotification" and said["params"]["subscription"] == number
            assert set(said["params"]["result"]) == {"from_slot", "to_slot", "reason"}
        await sockets.meters.stop()
        assert await sockets.world.debits(wallet) == [("logsSubscribe", 5)]


async def test_a_client_that_does_not_read_is_closed_with_1013() -> None:
    """Row 30: what waits for a client is bounded, and the others hear everything."""
    async with open_sockets(streams=StreamsConfig(waiting_bytes_max=1 << 16)) as sockets:
        slow, quick = [await sockets.world.customer(credits=10_000) for _ in range(2)]
        async with sockets.connect(slow, max_queue=1) as deaf, sockets.connect(quick) as other:
            for socket in (deaf, other):
                await ask(socket, "logsSubscribe", "all")
            for number in range(200):
                await sockets.node.notify("logsSubscribe", {"context": {"slot": number}, "value": "x" * 60_000})
                assert (await hear(other))["params"]["result"]["context"]["slot"] == number
            assert len(sockets.sockets) == 1
            with pytest.raises(ConnectionClosed) as closed:
                for _ in range(500):
                    await hear(deaf)
            assert closed.value.rcvd is not None and closed.value.rcvd.code == 1013


async def test_credits_that_run_out_end_the_stream_and_nothing_is_given_away() -> None:
    """Money rule 10: an event that is not covered is not delivered; the balance never goes below zero."""
    async with open_sockets() as sockets:
        wallet = await sockets.world.customer(credits=15)
        async with sockets.connect(wallet) as socket:
            await ask(socket, "slotSubscribe")
            for slot in range(101, 201):
                await sockets.node.new_slot(slot)
            heard = 0
            while heard < 100:
                heard += (await hear(socket))["method"] == "slotNotification"
            await sockets.node.new_slot(300)
            await asyncio.sleep(0.05)
            await sockets.watch.check()
            with pytest.raises(ConnectionClosed) as closed:
                await hear(socket)
            assert closed.value.rcvd is not None and closed.value.rcvd.code == 4002
        await sockets.meters.stop()
        assert await sockets.world.balance(wallet) == 0


class _Echoes:
    """A kind that another context brings: string ids, one credit an event."""

    subscribe, unsubscribe = "subscribeSignal", "signalUnsubscribe"
    id_prefix: str | None = "sig_sub_"
    connect_credits = 5
    meter_name = "signalNotification"
    takes_names = True

    def __init__(self) -> None:
        self.sinks: list[Sink] = []

    def check(self, arguments: Any) -> Any:
        return list(arguments) or Refusal(Err.INVALID_PARAMS, "wanted a filter")

    async def open(self, wanted: Any, sink: Sink) -> Any:
        self.sinks.append(sink)
        sink(_signal(0))  # Before the client knows the id: it comes after the answer.
        return self

    def close(self) -> None:
        self.sinks.clear()


def _signal(number: int) -> StreamEvent:
    return StreamEvent(
        b'{"jsonrpc":"2.0","method":"signalNotification","params":{"result":%d,"subscription":' % number, 10
    )


async def test_subscriptions_of_other_contexts_have_string_ids_and_prices_of_their_own() -> None:
    """The port by which the wiring hands in further kinds."""
    kind = _Echoes()
    async with open_sockets(kinds=[kind]) as sockets:
        wallet = await sockets.world.customer(credits=100)
        async with sockets.connect(wallet) as socket:
            assert (await ask(socket, "subscribeSignal"))["error"]["code"] == -32602
            assert (await ask(socket, "subscribeSignal", {}))["result"] == "sig_sub_1"
            kind.sinks[0](_signal(1))
            for number in range(2):
                assert (await hear(socket))["params"] == {"result": number, "subscription": "sig_sub_1"}
            assert (await ask(socket, "signalUnsubscribe", "sig_sub_1"))["result"] is True
        await sockets.meters.stop()
        assert await sockets.world.debits(wallet) == [("subscribeSignal", 5), ("signalNotification", 2)]


async def test_a_filter_may_be_given_by_name_and_positions_may_not() -> None:
    """Decisions, "parameters by name": the fields of the one object; all else is refused, free."""
    async with open_sockets(kinds=[_Echoes()]) as sockets:
        wallet = await sockets.world.customer(credits=100)
        async with sockets.connect(wallet) as socket:
            for method in ("slotSubscribe", "slotUnsubscribe", "signalUnsubscribe", "getSlot"):
                await socket.send(orjson.dumps({"jsonrpc": "2.0", "id": 7, "method": method, "params": {"a": 1}}))
                refused = await hear(socket)
                assert refused["error"]["code"] == -32602 and "must be an array" in refused["error"]["message"], method
            named = {"jsonrpc": "2.0", "id": 8, "method": "subscribeSignal", "params": {"kinds": []}}
            await socket.send(orjson.dumps(named))
            assert (await hear(socket))["result"] == "sig_sub_1"
        await sockets.meters.stop()
        assert (await sockets.world.debits(wallet))[0] == ("subscribeSignal", 5)


async def test_a_subscription_that_leaves_less_than_the_minimum_is_refused_before_its_charge() -> None:
    """Interface, "WebSocket minimum balance": below 10 credits a socket is closed, so with 10 to 14 the 5 for
    connecting would buy nothing. The refusal is free and the socket goes on; credits that another stream of the account
    holds ahead are still its own."""
    async with open_sockets(kinds=[_Echoes()]) as sockets:
        world = sockets.world
        for credits in (10, 14):
            poor = await world.customer(credits=credits)
            async with sockets.connect(poor) as socket:
                for method, parameters in (("subscribeSignal", ({},)), ("slotSubscribe", ())):
                    error = (await ask(socket, method, *parameters))["error"]
                    assert (error["code"], error["message"]) == (-32010, "insufficient credits")
                    assert error["data"]["constant"] == "INSUFFICIENT_CREDITS" and "10 credits" in error["data"]["hint"]
                await sockets.watch.check()
                assert "error" not in await ask(socket, "getSlot"), "the socket was closed"
            assert await world.debits(poor) == [("getSlot", 1)]
        enough = await world.customer(credits=15)
        ahead = await world.customer(credits=65)
        held = await sockets.meters.hold(ProvenProof(ahead.pubkey), "slotNotification", 50, takes_rate_unit=False)
        assert isinstance(held, HeldCharge)
        for wallet in (enough, ahead):
            async with sockets.connect(wallet) as socket:
                assert "result" in await ask(socket, "slotSubscribe")
                await sockets.watch.check()
                assert "result" in await ask(socket, "slotUnsubscribe", 1), "the socket was closed"
        await sockets.meters.release(held)


def test_the_answer_is_json() -> None:
    """An id with a prefix is a JSON text."""
    assert json.loads(_signal(1).head + b'"sig_sub_1"}}')["params"]["subscription"] == "sig_sub_1"


async def test_a_socket_pays_by_the_list_of_its_account() -> None:
    """Decisions, "Price lists": the subscription rounded up, notifications exactly; calls on the socket too."""
    lists = {"lists": {"wholesale": {"percent": 60, "methods": {"getBlock": 7}}}}
    async with open_sockets(pricing=lists) as sockets:
        wallet = await sockets.world.customer(1_000)
        await sockets.world.give_list(wallet, "wholesale")
        async with sockets.connect(wallet) as socket:
            await ask(socket, "rootSubscribe")
            assert await ask(socket, "getBlock", 5)
            for number in range(100):
                await sockets.node.notify("rootSubscribe", number)
                await hear(socket)
        while len(sockets.sockets):  # noqa: ASYNC110  # The door tells nobody of a socket's end.
            await asyncio.sleep(0.001)
        await sockets.meters.stop()
        debits = await sockets.world.debits(wallet)
        assert debits[:2] == [("rootSubscribe", 3), ("getBlock", 7)]
        assert sum(credits for _, credits in debits[2:]) == 6  # 60 % of ten.
