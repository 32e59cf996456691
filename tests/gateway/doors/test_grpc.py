"""The gRPC door over real connections: whose call it is, and what a caller without credentials reads."""

from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from actors.calls import KeyProof, Proof, SessionProof, WalletProof
from actors.errors import Err, Refusal
from actors.gateway.doors import grpc as door_grpc
from actors.gateway.doors.grpc import GrpcDoor, add_services, open_grpc
from actors.geyser_proto import api, geyser_pb2
from actors.grpc_http2 import server_call
from actors.grpc_http2.server import GrpcServer
from tests.gateway.world import World, a_world

KEY = "srpc_live_" + "A" * 43


class Service:
    """Notes whose calls come; refuses them where a test says so."""

    def __init__(self) -> None:
        self.is_up = True
        self.proofs: list[Proof] = []
        self.refusal: Refusal | None = None

    async def answer(self, rpc: api.Rpc, request: bytes, context: Any, proof: Proof, explain: Any) -> bytes:
        self.proofs.append(proof)
        if self.refusal is not None:
            code, text = explain(self.refusal)
            await context.abort(next(one for one in grpc.StatusCode if one.value[0] == code), text)
        return rpc.response().SerializeToString()

    async def subscribe(
        self, rpc: api.Rpc, requests: Any, context: Any, proof: Proof, explain: Any, count_bad: Any
    ) -> None:
        self.proofs.append(proof)
        async for request in requests:
            await context.write(request)


class Open:
    def __init__(self, world: World, service: Service, channel: grpc.aio.Channel) -> None:
        self.world, self.service, self.channel = world, service, channel
        self.refused: list[Err] = []

    async def get_slot(self, *metadata: tuple[str, str], request: bytes = b"") -> Any:
        return await self.channel.unary_unary(api.GET_SLOT.path)(request, metadata=metadata, timeout=30)

    async def refusal(self, *metadata: tuple[str, str]) -> tuple[grpc.StatusCode, str]:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await self.get_slot(*metadata)
        return refused.value.code(), refused.value.details() or ""


@pytest.fixture
async def opened() -> AsyncIterator[Open]:
    async with a_world() as world:
        server, service = GrpcServer(4 << 20), Service()
        add_services(None, server)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            found = Open(world, service, channel)
            door = GrpcDoor(service, world.door.authenticator, "Send USDC to W.", found.refused.append)
            open_grpc(door)
            yield found
        open_grpc(None)
        await server.stop(None)


async def test_x_token_takes_session_tokens_and_api_keys(opened: Open) -> None:
    """Interface, "gRPC streaming"; the headers of the other modes count as metadata too."""
    await opened.get_slot(("x-token", KEY))
    await opened.get_slot(("x-token", "ab" * 32))
    await opened.get_slot(("x-api-key", KEY))
    await opened.get_slot(("authorization", "Bearer " + "ab" * 32))
    kinds = [type(proof) for proof in opened.service.proofs]
    assert kinds == [KeyProof, SessionProof, KeyProof, SessionProof]
    assert opened.service.proofs[0] == opened.service.proofs[2]


async def test_a_wallet_signs_the_path_of_the_call_and_no_body(opened: Open) -> None:
    """Interface, "Authentication": three modes, all valid for gRPC. A stream's body has no end, so none is signed."""
    wallet = await opened.world.customer(100)
    headers = {name.lower(): value for name, value in wallet.headers("POST", api.GET_SLOT.path, b"").items()}
    await opened.get_slot(*headers.items())
    assert isinstance(opened.service.proofs[0], WalletProof)
    code, _ = await opened.refusal(*(headers | {"x-nonce": "another"}).items())
    assert code is grpc.StatusCode.UNAUTHENTICATED


@pytest.mark.parametrize(
    ("metadata", "says"),
    [
        (
            (),
            "metadata x-token. To get one: Send USDC to W.",
        ),
        ((("x-token", "nonsense"),), "x-token is neither an API key nor a session token"),
        ((("x-token", KEY), ("x-api-key", KEY)), "sent twice"),
        ((("x-token", KEY), ("x-token", KEY)), "sent twice"),
        ((("x-token", KEY), ("x-token", "nonsense")), "sent twice"),
        ((("x-token", "ab" * 32), ("x-token", KEY)), "sent twice"),
    ],
)
async def test_bad_credentials_are_unauthenticated_with_the_way_out(opened: Open, metadata: Any, says: str) -> None:
    """The status text says all, as clients hide the rest; nothing is asked of the service."""
    code, text = await opened.refusal(*metadata)
    assert code is grpc.StatusCode.UNAUTHENTICATED and says in text
    assert opened.service.proofs == [] and len(opened.refused) == 1


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("strong",), grpc.StatusCode.INVALID_ARGUMENT, "X-Consistency must be any or monotonic"),
        (("any", "strong"), grpc.StatusCode.INVALID_ARGUMENT, "X-Consistency must be any or monotonic"),
        (("monotonic",), grpc.StatusCode.UNIMPLEMENTED, "monotonic reads are not offered over gRPC"),
    ],
)
async def test_consistency_is_refused_rather_than_passed_over(
    opened: Open, words: tuple[str, ...], code: grpc.StatusCode, says: str
) -> None:
    """Decisions, "Monotonic reads": nothing is asked of the service, so nothing is charged."""
    found = await opened.refusal(("x-token", KEY), *(("x-consistency", word) for word in words))
    assert found[0] is code and says in found[1]
    assert opened.service.proofs == []
    await opened.get_slot(("x-token", KEY), ("x-consistency", "any"))
    assert len(opened.service.proofs) == 1


async def test_refusals_of_the_account_have_their_status(opened: Open) -> None:
    opened.service.refusal = Refusal(Err.INSUFFICIENT_CREDITS)
    assert await opened.refusal(("x-token", KEY)) == (
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        "insufficient credits; Send USDC to W.",
    )
    assert opened.refused == [Err.INSUFFICIENT_CREDITS]


async def test_streams_pass_bytes_in_both_directions(opened: Open) -> None:
    for rpc in (api.SUBSCRIBE, api.SUBSCRIBE_DESHRED):
        stub: Any = opened.channel.stream_stream(rpc.path)
        call = stub(metadata=(("x-token", KEY),))
        await call.write(b"as it is")
        assert await call.read() == b"as it is"
        call.cancel()


async def test_health_is_public_and_follows_the_source(opened: Open) -> None:
    """The official client asks for it by the name of the service."""
    stub: Any = health_pb2_grpc.HealthStub(opened.channel)
    states = health_pb2.HealthCheckResponse
    for service in ("", api.SERVICE):
        assert (await stub.Check(health_pb2.HealthCheckRequest(service=service))).status == states.SERVING
    opened.service.is_up = False
    assert (await stub.Check(health_pb2.HealthCheckRequest())).status == states.NOT_SERVING
    with pytest.raises(grpc.aio.AioRpcError) as unknown:
        await stub.Check(health_pb2.HealthCheckRequest(service="other"))
    assert unknown.value.code() is grpc.StatusCode.NOT_FOUND


@pytest.mark.parametrize("path", [api.GET_SLOT.path, f"/{door_grpc.HEALTH_SERVICE}/Check"])
@pytest.mark.threat(35)
async def test_a_call_without_a_request_ends(opened: Open, path: str) -> None:
    """Threat 35: such calls cost nothing to make, and would stay in the replica."""
    call: Any = opened.channel.stream_unary(path)(metadata=(("x-token", KEY),), timeout=20)
    await call.done_writing()
    assert await call.code() is grpc.StatusCode.INTERNAL
    assert "no request" in await call.details()
    assert opened.service.proofs == []


@pytest.mark.threat(35)
async def test_the_request_of_a_stranger_is_not_read(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """Threat 35: a kilobyte of a compressed request becomes a megabyte, and is work for nobody who pays."""
    asked = list[int]()
    inflate = server_call._inflate
    monkeypatch.setattr(server_call, "_inflate", lambda *what: asked.append(len(what[0])) or inflate(*what))
    call = opened.channel.unary_unary(api.GET_SLOT.path)
    for metadata in ((), (("x-token", "wrong"),)):
        refused: Any = call(bytes(900_000), metadata=metadata, compression=grpc.Compression.Gzip, timeout=20)
        assert await refused.code() is grpc.StatusCode.UNAUTHENTICATED
    assert not asked
    payer: Any = call(bytes(900_000), metadata=(("x-token", KEY),), compression=grpc.Compression.Gzip, timeout=20)
    assert await payer.code() is grpc.StatusCode.OK and len(asked) == 1


async def test_before_the_door_is_open_calls_may_be_tried_again(opened: Open) -> None:
    open_grpc(None)
    code, _ = await opened.refusal(("x-token", KEY))
    assert code is grpc.StatusCode.UNAVAILABLE


def test_every_call_of_the_service_has_a_handler() -> None:
    """The whole service, as the table of the format has it; Serve's server is told to leave it alone."""

    class Server:
        def __init__(self) -> None:
            self.passed_through: list[str] = []
            self.methods: set[str] = set()

        def add_passthrough_service(self, name: str) -> None:
            self.passed_through.append(name)

        def add_generic_rpc_handlers(self, handlers: Any) -> None:
            self.methods.update(handlers[0]._method_handlers)

    server = Server()
    add_services(None, server)
    assert {rpc.path for rpc in api.RPCS} <= server.methods
    assert server.passed_through == [api.SERVICE, door_grpc.HEALTH_SERVICE]
    service = geyser_pb2.DESCRIPTOR.services_by_name["Geyser"]
    assert set(service.methods_by_name) == {rpc.name for rpc in api.RPCS}
