"""Faults at the other doors, over real sockets: QUIC, block engine, gRPC."""

import asyncio
import base64
from collections.abc import Iterator
from itertools import pairwise

import grpc
import httpx
import pytest
import websockets
from aioquic.asyncio.client import connect
from solders.hash import Hash
from solders.keypair import Keypair
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction

from actors.geyser_proto import geyser_pb2
from devnode.encoding.addresses import TIP_ACCOUNTS
from tests.devnode.geyser.wire import Stream
from tests.devnode.tpu.conftest import TpuClient, client_configuration

from .conftest import Process
from .faulty import Faulty
from .local_node import give

CONFIRMED = geyser_pb2.CommitmentLevel.CONFIRMED


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Faulty]:
    process = Process(tmp_path_factory.mktemp("doors") / "chain")
    yield Faulty(process)
    assert process.terminate() == 0


@pytest.fixture
def node(shared: Faulty) -> Iterator[Faulty]:
    """One chain for all; each test finds it without faults."""
    yield shared
    shared.clear()


async def over_tpu(node: Faulty, *transactions: VersionedTransaction) -> None:
    """Send transactions over QUIC, and wait until the node has received them."""
    host, _, port = node.process.facts["tpu_quic"].rpartition(":")
    configuration = client_configuration(Keypair())
    async with connect(host, int(port), configuration=configuration, create_protocol=TpuClient) as client:
        assert isinstance(client, TpuClient)
        for transaction in transactions:
            client.send(bytes(transaction))
        await asyncio.wait_for(client.ping(), 10)


async def test_a_share_of_sends_over_quic_is_dropped(node: Faulty) -> None:
    """The other legs have no faults; a dropped transaction lands when it is sent again."""
    payer, to = node.wallet(), Pubkey.new_unique()
    payments = [node.payment(payer, to, 2_000_000 + number) for number in range(20)]
    node.set(sends={"tpu": {"drop_share": 0.5}}, seed=5)
    await over_tpu(node, *payments)
    landed = [False]
    while sum(landed) <= 2:  # The first may need some slots on a busy machine; the test's own limit ends this.
        node.wait_for_slot(node.slot() + 3)
        landed = [node.status(str(payment.signatures[0])) is not None for payment in payments]
    assert sum(landed) < 18
    node.clear()
    for payment, has_landed in zip(payments, landed, strict=True):
        if not has_landed:
            node.send(payment)
            assert node.status(str(payment.signatures[0])) is not None


def bundle_of(node: Faulty, payer: Keypair, tos: list[Pubkey]) -> list[VersionedTransaction]:
    """One payment to each wallet, with a tip in the last one."""
    latest = Hash.from_string(node.call("getLatestBlockhash", {"commitment": "confirmed"})["value"]["blockhash"])
    made = []
    for to in tos:
        gives = [give(payer, to, 2_000_000), *([give(payer, TIP_ACCOUNTS[0], 10_000)] if to == tos[-1] else [])]
        made.append(VersionedTransaction(MessageV0.try_compile(payer.pubkey(), gives, [], latest), [payer]))
    return made


def send_bundle(node: Faulty, bundle: list[VersionedTransaction]) -> httpx.Response:
    texts = [base64.b64encode(bytes(transaction)).decode() for transaction in bundle]
    body = {"jsonrpc": "2.0", "id": 1, "method": "sendBundle", "params": [texts, {"encoding": "base64"}]}
    return httpx.post(f"{node.url}/api/v1/bundles", json=body)


def test_a_bundle_is_dropped_or_late_as_a_whole(node: Faulty) -> None:
    payer, tos = node.wallet(), [Pubkey.new_unique(), Pubkey.new_unique()]
    node.set(sends={"bundle": {"drop_share": 1}})
    assert "result" in send_bundle(node, bundle_of(node, payer, tos)).json()
    node.wait_for_slot(node.slot() + 20)
    assert [node.balance(to) for to in tos] == [0, 0]
    node.set(sends={"bundle": {"drop_share": 0, "delay_share": 1, "delay_slots": 30}})
    before = node.slot()
    bundle = bundle_of(node, payer, tos)
    assert "result" in send_bundle(node, bundle).json()
    node.wait_for_slot(before + 60)
    statuses = [node.status(str(transaction.signatures[0])) for transaction in bundle]
    assert [status and status["slot"] for status in statuses] == [statuses[0] and statuses[0]["slot"]] * 2
    assert statuses[0] is not None and statuses[0]["slot"] >= before + 30


def test_the_block_engine_can_refuse_with_429(node: Faulty) -> None:
    node.set(calls={"sendBundle": {"too_many_share": 1}})
    assert send_bundle(node, bundle_of(node, node.wallet(), [Pubkey.new_unique()])).status_code == 429


async def test_a_grpc_stream_goes_silent_and_jumps(node: Faulty) -> None:
    """A silent stream stays open; lost slots are a gap and are not delivered later."""
    async with grpc.aio.insecure_channel(node.process.facts["grpc_url"].removeprefix("http://")) as channel:
        stream = Stream(channel)
        filters = {"all": geyser_pb2.SubscribeRequestFilterSlots(filter_by_commitment=True)}
        await stream.ask(geyser_pb2.SubscribeRequest(slots=filters, commitment=CONFIRMED))

        async def next_slot() -> int:
            while not (update := await stream.next()).HasField("slot"):
                pass
            return int(update.slot.slot)

        slots = [await next_slot()]
        node.set(streams={"grpc": {"silent": True}})
        node.wait_until_building(node.once() + 15)
        node.clear()
        while slots[-1] < node.once() - 3:
            slots.append(await next_slot())
        assert max(second - first for first, second in pairwise(slots)) >= 10
        node.once(lost_slots={"grpc": 12})
        more = [slots[-1], *[await next_slot() for _ in range(20)]]
        assert max(second - first for first, second in pairwise(more)) >= 10


async def test_connections_are_cut_by_fault(node: Faulty) -> None:
    """A WebSocket ends without a message and a gRPC stream with UNAVAILABLE; clients that connect again are served."""
    slots = geyser_pb2.SubscribeRequest(slots={"all": geyser_pb2.SubscribeRequestFilterSlots()})
    async with grpc.aio.insecure_channel(node.process.facts["grpc_url"].removeprefix("http://")) as channel:
        stream = Stream(channel)
        await stream.ask(slots)
        await stream.next()
        async with websockets.connect(node.process.facts["ws_url"]) as socket:
            await socket.send('{"jsonrpc":"2.0","id":1,"method":"slotSubscribe"}')
            await socket.recv()
            node.once(cut_connections={"pubsub": True, "grpc": True})
            with pytest.raises(websockets.ConnectionClosed):
                while True:
                    await asyncio.wait_for(socket.recv(), 5)
        with pytest.raises(grpc.aio.AioRpcError) as ended:
            while True:
                await stream.next()
        assert ended.value.code() is grpc.StatusCode.UNAVAILABLE
        again = Stream(channel)
        await again.ask(slots)
        await again.next()


async def test_a_dead_block_is_reported_over_grpc(node: Faulty) -> None:
    """Its status is SLOT_DEAD and never SLOT_CONFIRMED; the parent of the next slot is below it."""
    async with grpc.aio.insecure_channel(node.process.facts["grpc_url"].removeprefix("http://")) as channel:
        stream = Stream(channel)
        filters = {"all": geyser_pb2.SubscribeRequestFilterSlots(interslot_updates=True)}
        await stream.ask(geyser_pb2.SubscribeRequest(slots=filters))
        while not (await stream.next()).HasField("slot"):
            pass
        node.once(dead_block=True)
        told: dict[int, list[int]] = {}
        parents: dict[int, int] = {}
        dead = None
        for _ in range(500):
            if dead is not None and max(told) >= dead + 4:
                break
            update = await stream.next()
            if update.HasField("slot"):
                told.setdefault(update.slot.slot, []).append(update.slot.status)
                if update.slot.HasField("parent"):
                    parents[update.slot.slot] = update.slot.parent
                if update.slot.status == geyser_pb2.SlotStatus.SLOT_DEAD:
                    dead = update.slot.slot
        assert dead is not None
        assert geyser_pb2.SlotStatus.SLOT_CONFIRMED not in told[dead]
        assert parents[dead + 1] == dead - 1
