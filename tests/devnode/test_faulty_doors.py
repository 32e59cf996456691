"""Faults at the other doors, over real sockets: QUIC, block engine, gRPC."""

import asyncio

import grpc
import pytest
import websockets
from aioquic.asyncio.client import connect
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction

from actors.geyser_proto import geyser_pb2
from tests.devnode.geyser.wire import Stream
from tests.devnode.tpu.conftest import TpuClient, client_configuration

from .faulty import Faulty

CONFIRMED = geyser_pb2.CommitmentLevel.CONFIRMED


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
