"""Connections to a TPU port that fail by fault."""

from aioquic.quic.connection import QuicConnection
from solders.keypair import Keypair

from devnode.faults.plan import read_plan

from .conftest import OpenTpu, client_configuration


async def test_a_refused_connection_is_closed_as_disallowed(tpu: OpenTpu) -> None:
    tpu.local.node.faults.set(read_plan({"tpu": {"refused_share": 1}}))
    async with tpu.client() as client:
        ended = await client.end()
    assert (ended.error_code, ended.reason_phrase) == (2, "disallowed")


async def test_a_broken_connection_ends_with_its_first_transaction(tpu: OpenTpu) -> None:
    """The transaction is lost; a new connection without the fault takes it."""
    (payment,) = tpu.payments(1)
    tpu.local.node.faults.set(read_plan({"tpu": {"broken_share": 1}}))
    async with tpu.client() as client:
        client.send(bytes(payment))
        ended = await client.end()
    assert (ended.error_code, ended.reason_phrase) == (1, "dropped")
    assert payment.signatures[0] not in tpu.local.chain.statuses
    tpu.local.node.faults.set(read_plan({}))
    async with tpu.client() as client:
        client.send(bytes(payment))
        assert await tpu.landed() == str(payment.signatures[0])


async def test_an_ignored_connection_is_never_answered(tpu: OpenTpu) -> None:
    """The client repeats its first packet; none of the copies is answered, even after the fault has ended."""
    tpu.local.node.faults.set(read_plan({"tpu": {"ignored_share": 1}}))
    server = tpu.door._server
    assert server is not None
    client = QuicConnection(configuration=client_configuration(Keypair()))
    client.connect(("127.0.0.1", 9), now=0)
    first = [datagram for datagram, _ in client.datagrams_to_send(now=0)]
    assert first
    for _ in range(3):
        for datagram in first:
            server.datagram_received(datagram, ("127.0.0.1", 9))
        assert not server._protocols
        tpu.local.node.faults.set(read_plan({}))
    async with tpu.client() as other:
        assert not other.ended.done()
