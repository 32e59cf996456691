"""TPU connections over real sockets, with a client of unmodified aioquic."""

import dataclasses

import pytest
from aioquic.quic.connection import Limit
from aioquic.quic.packet import QuicFrameType
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from solders.keypair import Keypair
from solders.message import MessageV1, TransactionConfig
from solders.transaction import VersionedTransaction

from devnode.tpu.connection import (
    PAUSE_SECONDS_MAX,
    STREAM_BYTES_MAX,
    StreamCredit,
    StreamTooLong,
    UnfinishedStreams,
    node_certificate,
    peer_identity,
)
from tests.devnode.encoding.test_wire import memo

from .conftest import ROOMY, OpenTpu, TpuFactory, client_configuration, nameless_certificate


def test_the_key_of_the_certificate_is_the_identity() -> None:
    """The certificate is self-signed and does not expire."""
    identity = Keypair()
    certificate, key = node_certificate(identity)
    public = certificate.public_key()
    assert isinstance(public, Ed25519PublicKey)
    assert public.public_bytes_raw() == bytes(identity.pubkey()) == key.public_key().public_bytes_raw()
    certificate.verify_directly_issued_by(certificate)
    assert certificate.not_valid_after_utc.year == 4096
    assert peer_identity(certificate, []) == identity.pubkey()


def test_only_a_single_ed25519_certificate_is_an_identity() -> None:
    mine, _ = node_certificate(Keypair())
    nameless, _ = nameless_certificate()
    assert peer_identity(nameless, []) is None
    assert peer_identity(mine, [nameless]) is None
    assert peer_identity(None, []) is None


def test_pieces_are_put_together_by_stream() -> None:
    streams = UnfinishedStreams()
    assert streams.receive(2, b"a", False, 0) is None
    assert streams.receive(6, b"x", False, 0) is None and streams.has_open
    assert streams.receive(2, b"b", True, 1) == b"ab"
    assert streams.receive(6, b"", True, 1) == b"x"
    assert streams.receive(10, b"whole", True, 1) == b"whole" and not streams.has_open


def test_a_stream_has_at_most_the_bytes_of_a_transaction() -> None:
    """The limit holds for one piece and for several."""
    streams = UnfinishedStreams()
    assert streams.receive(2, bytes(STREAM_BYTES_MAX), True, 0) == bytes(STREAM_BYTES_MAX)
    with pytest.raises(StreamTooLong):
        streams.receive(6, bytes(STREAM_BYTES_MAX + 1), True, 0)
    streams.receive(10, bytes(STREAM_BYTES_MAX), False, 0)
    with pytest.raises(StreamTooLong):
        streams.receive(10, b"x", True, 0)


def test_a_stream_that_pauses_too_long_is_dropped() -> None:
    """Its later pieces are ignored; other streams are not affected."""
    streams = UnfinishedStreams()
    streams.receive(2, b"a", False, 0)
    streams.receive(6, b"x", False, 1)
    assert streams.drop_stalled(PAUSE_SECONDS_MAX) == []
    assert streams.drop_stalled(PAUSE_SECONDS_MAX + 0.1) == [2]
    assert streams.receive(2, b"b", False, 3) is None and streams.receive(2, b"c", True, 3) is None
    assert streams.receive(6, b"y", True, 3) == b"xy" and not streams.has_open


def test_a_reset_stream_is_forgotten() -> None:
    streams = UnfinishedStreams()
    streams.receive(2, b"a", False, 0)
    assert streams.forget(2) and not streams.forget(2) and not streams.has_open


async def test_a_transaction_sent_on_a_stream_lands(tpu: OpenTpu) -> None:
    (payment,) = tpu.payments(1)
    async with tpu.client() as client:
        client.send(bytes(payment))
        assert await tpu.landed() == str(payment.signatures[0])


async def test_the_certificate_shows_the_nodes_identity(tpu: OpenTpu) -> None:
    """A client can check that it is connected to the right leader."""
    async with tpu.client() as client:
        certificate = client._quic.tls._peer_certificate
        assert certificate is not None
        key = certificate.public_key().public_bytes_raw()  # type: ignore[union-attr]
        assert key == bytes(tpu.local.keys.identity.pubkey())


async def test_no_stream_may_be_opened_before_admission(tpu: OpenTpu) -> None:
    """The handshake grants no streams; credit comes after it, and one more for each submitted transaction."""
    (payment,) = tpu.payments(1)
    async with tpu.client() as client:
        assert client.credit == 0
        client.send(bytes(payment))  # The client waits for credit before it sends.
        await tpu.landed()
        assert client.credit == ROOMY.unstaked_streams


async def test_a_stream_that_comes_in_pieces_is_one_transaction(tpu: OpenTpu) -> None:
    (payment,) = tpu.payments(1)
    raw = bytes(payment)
    async with tpu.client() as client:
        stream = client.send(raw[:10], ends=False)
        await client.ping()
        client.more(stream, raw[10:])
        assert await tpu.landed() == str(payment.signatures[0])


async def test_a_v1_transaction_above_the_size_of_v0_lands(tpu: OpenTpu) -> None:
    payer = tpu.wallet()
    config = TransactionConfig(compute_unit_limit=400_000, loaded_accounts_data_size_limit=1_000_000)
    message = MessageV1.try_compile(payer.pubkey(), [memo(3_000)], tpu.local.blockhash(), config=config)
    large = VersionedTransaction(message, [payer])
    assert len(bytes(large)) > 3_000
    async with tpu.client() as client:
        client.send(bytes(large))
        assert await tpu.landed() == str(large.signatures[0])


async def test_a_stream_with_too_many_bytes_ends_the_connection(tpu: OpenTpu) -> None:
    async with tpu.client() as client:
        client.send(bytes(STREAM_BYTES_MAX + 1))
        end = await client.end()
    assert (end.error_code, end.reason_phrase) == (5, "invalid_stream")


async def test_garbage_does_not_affect_the_next_transaction(tpu: OpenTpu) -> None:
    """Bytes that are no transaction are ignored, and the connection stays open."""
    (payment,) = tpu.payments(1)
    async with tpu.client() as client:
        client.send(b"not a transaction")
        client.send(bytes(payment))
        assert await tpu.landed() == str(payment.signatures[0])
        assert not client.ended.done()


async def test_a_client_without_certificate_is_refused(tpu: OpenTpu) -> None:
    """The connection ends with TLS alert 116 (certificate required) as a transport error."""
    async with tpu.client(configuration=client_configuration(None)) as client:
        end = await client.end()
    assert (end.error_code, end.frame_type) == (0x100 + 116, QuicFrameType.CRYPTO)


async def test_a_peer_without_identity_counts_by_its_address(tpu: OpenTpu) -> None:
    (payment,) = tpu.payments(1)
    configuration = client_configuration(None)
    configuration.certificate, configuration.private_key = nameless_certificate()
    async with tpu.client(configuration=configuration) as client:
        client.send(bytes(payment))
        await tpu.landed()


async def test_another_protocol_is_refused(tpu: OpenTpu) -> None:
    """The handshake fails with TLS alert 120 (no application protocol)."""
    configuration = client_configuration(Keypair())
    configuration.alpn_protocols = ["h3"]
    with pytest.raises(ConnectionError):
        async with tpu.client(configuration=configuration):
            raise AssertionError("connected")


async def test_a_connection_above_the_limit_of_its_peer_is_closed(tpu_with: TpuFactory) -> None:
    """The peer's first connection stays open, and other peers may connect."""
    async with tpu_with(dataclasses.replace(ROOMY, connections_per_unstaked_peer=1)) as tpu:
        (payment,) = tpu.payments(1)
        identity = Keypair()
        async with tpu.client(identity) as first:
            async with tpu.client(identity) as second:
                end = await second.end()
            assert (end.error_code, end.reason_phrase) == (4, "too_many")
            async with tpu.client():  # Another peer.
                first.send(bytes(payment))
                await tpu.landed()


async def test_a_full_table_drops_its_oldest(tpu_with: TpuFactory) -> None:
    limits = dataclasses.replace(ROOMY, unstaked_connections_max=2)
    async with tpu_with(limits) as tpu, tpu.client() as oldest, tpu.client(), tpu.client():
        end = await oldest.end()
    assert (end.error_code, end.reason_phrase) == (1, "dropped")


async def test_an_identity_with_stake_gets_more_at_once(tpu: OpenTpu) -> None:
    """A client with the node's key has all stake, so it gets the largest number of streams."""
    (payment,) = tpu.payments(1)
    async with tpu.client(tpu.local.keys.identity) as client:
        client.send(bytes(payment))
        await tpu.landed()
        assert client.credit == ROOMY.staked_streams_max


async def test_streams_above_the_rate_wait_and_land(tpu_with: TpuFactory) -> None:
    """With more streams than credit, far above the rate, every transaction still lands."""
    limits = dataclasses.replace(ROOMY, unstaked_streams=4, unstaked_streams_per_interval=6)
    async with tpu_with(limits) as tpu:
        sent = tpu.payments(20)
        async with tpu.client() as client:
            for payment in sent:
                client.send(bytes(payment))
            landed = [await tpu.landed() for _ in sent]
    assert sorted(landed) == sorted(str(payment.signatures[0]) for payment in sent)


async def test_complete_transactions_land_after_the_sender_left(tpu_with: TpuFactory) -> None:
    """A client may send and close at once."""
    limits = dataclasses.replace(ROOMY, unstaked_streams_per_interval=1)
    async with tpu_with(limits) as tpu:
        sent = tpu.payments(3)
        async with tpu.client() as client:
            for payment in sent:
                client.send(bytes(payment))
            await client.ping()
        assert {await tpu.landed() for _ in sent} == {str(payment.signatures[0]) for payment in sent}


async def test_a_reset_stream_returns_its_credit(tpu: OpenTpu) -> None:
    async with tpu.client() as client:
        stream = client.send(b"half", ends=False)
        await client.ping()
        server = next(iter(tpu.door._connections.values()))
        assert server._streams.has_open
        client._quic.reset_stream(stream, 0)
        client.transmit()
        await client.ping()
        assert not server._streams.has_open
        assert server.credit.value == ROOMY.unstaked_streams + 1


async def test_an_address_that_connects_too_often_is_ignored(tpu_with: TpuFactory) -> None:
    """The client gets no answer, as if its packets were lost, until the rate allows a connection again."""
    async with tpu_with(dataclasses.replace(ROOMY, connections_per_address_and_minute=1)) as tpu:
        async with tpu.client():
            pass
        configuration = client_configuration(Keypair())
        configuration.idle_timeout = 0.2
        with pytest.raises(ConnectionError):
            async with tpu.client(configuration=configuration):
                raise AssertionError("connected")
        tpu.local.clock.advance(60)
        async with tpu.client():
            pass


def test_only_grants_change_the_credit() -> None:
    """aioquic adds one for each closed stream, and the class ignores it."""
    credit = StreamCredit(Limit(0, "streams", 128))
    assert credit.value == 0
    credit.value += 1
    assert credit.value == 0
    credit.grant(5)
    assert (credit.value, credit.sent) == (5, 0)
