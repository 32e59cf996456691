"""A chain inside the test process with its TPU on a free port, and a client of unmodified aioquic."""

import asyncio
import datetime
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest
from aioquic.asyncio.client import connect
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ConnectionTerminated, QuicEvent
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction

from devnode.chain.bus import TransactionLanded
from devnode.tpu.admission import Limits
from devnode.tpu.connection import node_certificate
from devnode.tpu.door import ALPN, TpuDoor
from tests.devnode.local_node import LocalNode

WAIT_SECONDS_MAX = 90
ROOMY = Limits(connections_per_address_and_minute=1_000)


class TpuClient(QuicConnectionProtocol):
    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        self.ended: asyncio.Future[ConnectionTerminated] = asyncio.get_running_loop().create_future()

    def quic_event_received(self, event: QuicEvent) -> None:
        if isinstance(event, ConnectionTerminated) and not self.ended.done():
            self.ended.set_result(event)

    def send(self, raw: bytes, ends: bool = True) -> int:
        stream: int = self._quic.get_next_available_stream_id(is_unidirectional=True)
        self.more(stream, raw, ends)
        return stream

    def more(self, stream: int, raw: bytes, ends: bool = True) -> None:
        self._quic.send_stream_data(stream, raw, end_stream=ends)
        self.transmit()

    @property
    def credit(self) -> int:
        """The number of streams that this client may open since the start of the connection."""
        return self._quic._remote_max_streams_uni

    async def end(self) -> ConnectionTerminated:
        return await asyncio.wait_for(self.ended, WAIT_SECONDS_MAX)


def client_configuration(identity: Keypair | None) -> QuicConfiguration:
    configuration = QuicConfiguration(is_client=True, alpn_protocols=[ALPN], verify_mode=ssl.CERT_NONE)
    if identity is not None:
        configuration.certificate, configuration.private_key = node_certificate(identity)
    return configuration


def nameless_certificate() -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    """A certificate whose key is not Ed25519, so that it has no identity."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "no identity")])
    day = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(day).not_valid_after(day + datetime.timedelta(days=3_650))
    return builder.sign(key, hashes.SHA256()), key


class OpenTpu:
    def __init__(self, local: LocalNode, limits: Limits) -> None:
        self.local = local
        self.door = TpuDoor(local.node, local.clock, limits)
        self._landed = local.chain.bus.subscribe(TransactionLanded)

    async def open(self) -> "OpenTpu":
        listening = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        listening.bind(("127.0.0.1", 0))
        listening.setblocking(False)
        await self.door.open(listening)
        return self

    @asynccontextmanager
    async def client(
        self, identity: Keypair | None = None, configuration: QuicConfiguration | None = None
    ) -> AsyncIterator[TpuClient]:
        """Connect a client, with a new identity if none is given."""
        address = self.local.node.tpu_quic_address
        assert address is not None
        host, _, port = address.rpartition(":")
        if configuration is None:
            configuration = client_configuration(identity or Keypair())
        async with connect(host, int(port), configuration=configuration, create_protocol=TpuClient) as client:
            assert isinstance(client, TpuClient)
            yield client

    def wallet(self) -> Keypair:
        """A funded wallet; `landed` does not return its funding transactions."""
        keypair = self.local.wallet(10**12)
        self._landed.drain()
        return keypair

    def payments(self, count: int) -> list[VersionedTransaction]:
        payer = self.wallet()
        return [self.local.transfer(payer, Pubkey.new_unique(), 2_000_000 + number) for number in range(count)]

    async def landed(self) -> str:
        """The signature of the next transaction that lands."""
        event = await asyncio.wait_for(self._landed.next(), WAIT_SECONDS_MAX)
        assert isinstance(event, TransactionLanded)
        return event.record.signature


TpuFactory = Callable[[Limits], AbstractAsyncContextManager[OpenTpu]]


@pytest.fixture
async def tpu(local: LocalNode) -> AsyncIterator[OpenTpu]:
    opened = await OpenTpu(local, ROOMY).open()
    yield opened
    opened.door.close()


@pytest.fixture
def tpu_with(local: LocalNode) -> TpuFactory:
    @asynccontextmanager
    async def start(limits: Limits) -> AsyncIterator[OpenTpu]:
        opened = await OpenTpu(local, limits).open()
        try:
            yield opened
        finally:
            opened.door.close()

    return start
