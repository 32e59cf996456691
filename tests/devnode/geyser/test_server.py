"""The ports of the stream: plaintext, TLS, health, and ports that are taken."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from actors.geyser_proto import api, geyser_pb2
from devnode.geyser.certificates import own_identity
from devnode.geyser.server import PORT, GeyserServer
from devnode.geyser.settings import GeyserSettings
from devnode.ports import PortTaken
from tests.devnode.conftest import StartDevnode

from .listening import Streaming
from .wire import Stream, call

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
