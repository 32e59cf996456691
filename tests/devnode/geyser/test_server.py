"""The ports of the stream: plaintext, TLS with either certificate, health, and ports that are taken."""

import asyncio
import datetime
import ipaddress
import socket
import stat
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import grpc
import pytest
from cryptography import x509
from cryptography.x509.verification import PolicyBuilder, Store
from grpc_health.v1 import health_pb2, health_pb2_grpc

from actors.clock import ManualClock
from actors.geyser_proto import api, geyser_pb2
from devnode.geyser.server import FOLDER, LIFE_DAYS, PORT, BadCertificate, GeyserServer, given_identity, own_identity
from devnode.geyser.settings import GeyserSettings
from devnode.ports import PortTaken
from tests.devnode.conftest import StartDevnode

from .listening import Streaming
from .wire import Stream, call

DAY_SECONDS = 86_400


def served_names(data_dir: Path) -> list[str]:
    certificate = x509.load_pem_x509_certificate((data_dir / FOLDER / "cert.pem").read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return [str(name.value) for name in names]


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "::1"])
def test_a_client_that_trusts_the_authority_accepts_the_server(tmp_path: Path, name: str) -> None:
    """The chain is valid by the rules of web servers, for every name of the node."""
    clock = ManualClock()
    identity = own_identity(tmp_path, "127.0.0.1", clock)
    subject: x509.GeneralName
    try:
        subject = x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        subject = x509.DNSName(name)
    leaf, *_ = x509.load_pem_x509_certificates(identity.chain)
    assert identity.ca_file is not None
    authority = x509.load_pem_x509_certificate(identity.ca_file.read_bytes())
    now = datetime.datetime.fromtimestamp(clock.now(), datetime.UTC)
    verifier = PolicyBuilder().store(Store([authority])).time(now).build_server_verifier(subject)
    assert verifier.verify(leaf, []) == [leaf, authority]


def test_the_certificate_is_kept(tmp_path: Path) -> None:
    """Clients that have the CA file can connect after a restart."""
    clock = ManualClock()
    first = own_identity(tmp_path, "127.0.0.1", clock)
    clock.advance(30 * DAY_SECONDS)
    assert own_identity(tmp_path, "127.0.0.1", clock) == first


@pytest.mark.parametrize("why", ["another host", "it expires", "a file is gone"])
def test_a_new_certificate_replaces_an_unusable_one(tmp_path: Path, why: str) -> None:
    """Reasons: a missing name, the last month before it expires, a missing file."""
    clock, host = ManualClock(), "127.0.0.1"
    first = own_identity(tmp_path, host, clock)
    if why == "another host":
        host = "node.example"
    elif why == "it expires":
        clock.advance((LIFE_DAYS - 29) * DAY_SECONDS)
    else:
        (tmp_path / FOLDER / "ca.pem").unlink()
    second = own_identity(tmp_path, host, clock)
    assert second.key != first.key and second.chain != first.chain
    assert host in served_names(tmp_path)


def test_only_the_owner_can_read_the_key(tmp_path: Path) -> None:
    """The authority's key is in no file."""
    own_identity(tmp_path, "127.0.0.1", ManualClock())
    folder = tmp_path / FOLDER
    assert stat.S_IMODE((folder / "key.pem").stat().st_mode) == 0o600
    assert sorted(path.name for path in folder.iterdir()) == ["ca.pem", "cert.pem", "key.pem"]


def test_a_given_certificate_is_checked_first(tmp_path: Path) -> None:
    """An unusable certificate is an error at start, which names the file and the reason."""
    clock = ManualClock()
    own_identity(tmp_path, "127.0.0.1", clock)
    (tmp_path / "other").mkdir()
    own_identity(tmp_path / "other", "127.0.0.1", clock)
    cert, key = (tmp_path / FOLDER / name for name in ("cert.pem", "key.pem"))
    assert given_identity(cert, key).chain == cert.read_bytes()
    for bad_cert, bad_key, text in (
        (cert, tmp_path / "other" / FOLDER / "key.pem", "not the key of the certificate"),
        (tmp_path / "none.pem", key, "No such file"),
        (key, key, "--grpc-tls-cert"),
        (cert, cert, "--grpc-tls-key"),
    ):
        with pytest.raises(BadCertificate, match=text):
            given_identity(bad_cert, bad_key)


FREE = GeyserSettings(port=0, tls_port=0)
Start = Callable[..., "asyncio.Future[GeyserServer]"]


@pytest.fixture
async def start(streaming: Streaming, tmp_path: Path) -> AsyncIterator[Start]:
    servers: list[GeyserServer] = []

    async def started(settings: GeyserSettings = FREE) -> GeyserServer:
        server = GeyserServer(streaming.local.node, streaming.hub, settings, "127.0.0.1", tmp_path)
        servers.append(server)
        await server.start()
        return server

    yield started  # type: ignore[misc]
    for server in servers:
        await server.stop()


def secure(port: int, ca_file: Path) -> grpc.aio.Channel:
    return grpc.aio.secure_channel(f"localhost:{port}", grpc.ssl_channel_credentials(ca_file.read_bytes()))


async def test_both_ports_serve_the_same(start: Start) -> None:
    """A client that trusts the node's CA file gets the same service over TLS."""
    server = await start()
    assert server.ca_file is not None
    async with (
        grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as plain,
        secure(server.tls_port, server.ca_file) as tls,
    ):
        for channel in (plain, tls):
            assert (await call(channel, api.GET_SLOT, geyser_pb2.GetSlotRequest())).slot > 0
            assert (await Stream(channel).next()).HasField("ping")


async def test_a_given_certificate_is_used(start: Start, streaming: Streaming, tmp_path: Path) -> None:
    """The node names no CA file then, because it does not know the authority."""
    given = own_identity(tmp_path / "..", "127.0.0.1", streaming.local.clock)
    assert given.ca_file is not None
    folder = given.ca_file.parent
    server = await start(GeyserSettings(port=0, tls_port=0, tls_cert=folder / "cert.pem", tls_key=folder / "key.pem"))
    assert server.ca_file is None
    async with secure(server.tls_port, given.ca_file) as channel:
        assert (await call(channel, api.PING, geyser_pb2.PingRequest(count=1))).count == 1


@pytest.mark.parametrize("service", ["", api.SERVICE])
async def test_the_standard_health_service_answers(start: Start, service: str) -> None:
    """Yellowstone's client asks for the service by name."""
    server = await start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as channel:
        health = health_pb2_grpc.HealthStub(channel)
        reply = await health.Check(health_pb2.HealthCheckRequest(service=service), timeout=10)
    assert reply.status == health_pb2.HealthCheckResponse.SERVING


@pytest.mark.parametrize("field", ["port", "tls_port"])
async def test_a_port_from_the_settings_must_be_free(start: Start, field: str) -> None:
    """Otherwise clients would connect to another node."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        flag = "--grpc-port" if field == "port" else "--grpc-tls-port"
        with pytest.raises(PortTaken, match=f"cannot listen on 127.0.0.1:{port}.*{flag}"):
            await start(GeyserSettings(**{"port": 0, "tls_port": 0, field: port}))


async def test_a_free_port_replaces_a_taken_default(start: Start) -> None:
    """Two nodes on one machine start without flags."""
    first, second = await start(GeyserSettings()), await start(GeyserSettings())
    ports = {first.port, first.tls_port, second.port, second.tls_port}
    assert len(ports) == 4 and 0 not in ports
    assert first.port == PORT or PORT not in ports


async def test_stopping_ends_streams_with_unavailable(start: Start) -> None:
    """A second stop changes nothing."""
    server = await start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as channel:
        stream = Stream(channel)
        await stream.next()
        await server.stop()
        assert await stream.end() == (grpc.StatusCode.UNAVAILABLE, "server is shutting down try again later")
    await server.stop()


def test_a_node_with_subscribers_ends_cleanly(start_devnode: StartDevnode) -> None:
    """When a devnode process ends, its subscribers get UNAVAILABLE, and the exit code is 0."""
    process = start_devnode("chain", "--grpc-port", "0", "--grpc-tls-port", "0")
    request = geyser_pb2.SubscribeRequest()
    request.blocks_meta["it"].SetInParent()
    rpc = api.SUBSCRIBE
    with grpc.insecure_channel(process.facts["grpc_url"].removeprefix("http://")) as channel:
        updates = channel.stream_stream(
            rpc.path, request_serializer=rpc.request.SerializeToString, response_deserializer=rpc.response.FromString
        )(iter([request]), timeout=20)
        slots = [one.block_meta.slot for one, _ in zip(updates, range(4), strict=False) if one.HasField("block_meta")]
        assert len(slots) == 3 and slots == sorted(slots)
        assert process.terminate() == 0
        with pytest.raises(grpc.RpcError):
            for _ in updates:
                pass
        assert updates.code() is grpc.StatusCode.UNAVAILABLE
