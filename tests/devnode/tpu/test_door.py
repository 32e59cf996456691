"""A devnode process whose TPU a client finds and uses."""

import asyncio
from collections.abc import Iterable

import httpx
import pytest
from aioquic.asyncio.client import connect
from solana.rpc.async_api import AsyncClient
from solana.rpc.commitment import Confirmed
from solders.hash import Hash
from solders.keypair import Keypair
from solders.signature import Signature
from solders.system_program import TransferParams, transfer
from solders.transaction import Transaction

from devnode.ports import PortTaken, open_udp
from tests.devnode.conftest import Process, StartDevnode

from .conftest import OpenTpu, TpuClient, client_configuration

TRANSACTIONS = 1_000
LOOKS_MAX = 250  # Five a second, less than a blockhash is good for.
STATUSES_MAX = 256  # In one getSignatureStatuses.


def payments(payer: Keypair, blockhash: Hash, count: int) -> Iterable[Transaction]:
    for number in range(count):
        params = TransferParams(from_pubkey=payer.pubkey(), to_pubkey=payer.pubkey(), lamports=number + 1)
        yield Transaction.new_signed_with_payer([transfer(params)], payer.pubkey(), [payer], blockhash)


async def funded(client: AsyncClient, process: Process) -> Keypair:
    payer = Keypair()
    async with httpx.AsyncClient() as http:
        body = {"pubkey": str(payer.pubkey()), "lamports": 10**10}
        reply = (await http.post(process.url + "/admin/fund", json=body)).json()
    await client.confirm_transaction(Signature.from_string(reply["sol_signature"]), Confirmed, sleep_seconds=0.02)
    return payer


async def landed(client: AsyncClient, signatures: list[Signature]) -> int:
    statuses = [
        status
        for start in range(0, len(signatures), STATUSES_MAX)
        for status in (await client.get_signature_statuses(signatures[start : start + STATUSES_MAX])).value
    ]
    assert all(status is None or status.err is None for status in statuses)
    return sum(status is not None for status in statuses)


async def test_a_thousand_transactions_all_land(start_devnode: StartDevnode) -> None:
    """One connection of a stranger, as fast as it may: 200 a second, nothing lost, nothing answered."""
    process = start_devnode("chain", "--slot-ms", "400", "--leaders", "1")  # A blockhash is good for a minute.
    async with AsyncClient(process.url, Confirmed) as client:
        payer = await funded(client, process)
        node = (await client.get_cluster_nodes()).value[0]
        assert str(node.tpu_quic) == process.facts["tpu_quic"]
        slot = (await client.get_slot()).value
        assert (await client.get_slot_leaders(slot, 1)).value == [node.pubkey]
        host, _, port = process.facts["tpu_quic"].rpartition(":")
        configuration = client_configuration(Keypair())
        async with connect(host, int(port), configuration=configuration, create_protocol=TpuClient) as tpu:
            assert isinstance(tpu, TpuClient)
            blockhash = (await client.get_latest_blockhash(Confirmed)).value.blockhash
            sent = list(payments(payer, blockhash, TRANSACTIONS))
            for payment in sent:
                tpu.send(bytes(payment))
            signatures = [payment.signatures[0] for payment in sent]
            for _ in range(LOOKS_MAX):
                count = await landed(client, signatures)
                if count == TRANSACTIONS:
                    break
                await asyncio.sleep(0.2)
            assert not tpu.ended.done(), tpu.ended
    assert count == TRANSACTIONS


async def test_getclusternodes_does_not_show_a_closed_door(tpu: OpenTpu) -> None:
    assert tpu.local.call("getClusterNodes")[0]["tpuQuic"] == tpu.local.node.tpu_quic_address is not None
    tpu.door.close()
    assert tpu.local.call("getClusterNodes")[0]["tpuQuic"] is None


async def test_a_closed_connection_leaves_no_state(tpu: OpenTpu) -> None:
    (payment,) = tpu.payments(1)
    async with tpu.client() as client:
        client.send(bytes(payment))
        await tpu.landed()
        (server,) = tpu.door._connections.values()
    await server.wait_closed()
    door = tpu.door
    assert not door._connections and not door._throttles and not door._peers and not door._admission._of_peer


async def test_datagrams_that_are_not_quic_are_ignored(tpu: OpenTpu) -> None:
    (payment,) = tpu.payments(1)
    assert tpu.door._server is not None
    for datagram in (b"", b"\x00", b"\xff" * 1_300, b"\xc0" + bytes(1_250)):
        tpu.door._server.datagram_received(datagram, ("127.0.0.1", 9))
    async with tpu.client() as client:
        client.send(bytes(payment))
        await tpu.landed()


def test_the_error_of_a_taken_port_names_its_flag() -> None:
    taken = open_udp("127.0.0.1", 0, "--tpu-port")
    with pytest.raises(PortTaken, match="--tpu-port"):
        open_udp("127.0.0.1", taken.getsockname()[1], "--tpu-port")
    taken.close()
