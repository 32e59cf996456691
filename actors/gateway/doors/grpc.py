"""The gRPC door: finds the account of each call of `geyser.Geyser` and hands the call to its service.

Implements: interface, "gRPC streaming" (`x-token` takes session tokens and API keys) and "Authentication" (the headers
of the other modes, as metadata); threats 35, 50 and 62 (a bad request of many filters counts by its cost).
Ray Serve's server calls add_services in each process that listens for gRPC. Serve would lead each call through its own
request path, which cannot send headers before the first message, cannot end a call with a status without logging an
exception, and encodes each message. Its server has services that pass this path by (add_passthrough_service, as its
reflection service does); ours are such services. Not here: what a call costs, its answer
(streams/yellowstone/service.py).
"""

import logging
from collections.abc import AsyncIterator, Callable
from typing import Any, NoReturn, Protocol

import grpc
from grpc_health.v1 import health_pb2

from actors.calls import Figures, Proof
from actors.errors import Err, Refusal
from actors.gateway.calls.consistency import MALFORMED, parse_consistency
from actors.gateway.calls.refused_work import cost_of
from actors.gateway.calls.requests import CONSISTENCY, AsgiClient, Request
from actors.gateway.doors import grpc_status
from actors.gateway.doors.grpc_status import Explain
from actors.gateway.payments.authentication import Authenticator
from actors.geyser_proto import api
from actors.identity.credentials import DUPLICATE_HEADER, KEY_PREFIX

logger = logging.getLogger(__name__)

TOKEN_METADATA = "x-token"  # noqa: S105 - the name of the header, not a token.
HEALTH_SERVICE = "grpc.health.v1.Health"
_HEALTHY = health_pb2.HealthCheckResponse(status=health_pb2.HealthCheckResponse.SERVING)
_NOT_HEALTHY = health_pb2.HealthCheckResponse(status=health_pb2.HealthCheckResponse.NOT_SERVING)
_REQUEST_BYTES_MAX = 4 * 1024 * 1024  # Default of Yellowstone.
_BAD_TOKEN = Refusal(Err.AUTH_FAILED, "x-token is neither an API key nor a session token")
_SENT_TWICE = Refusal(Err.AUTH_FAILED, "a credential was sent twice", hint="send one alone, as metadata x-token")
_BAD_REQUEST = Refusal(Err.INVALID_PARAMS)
_STARTING = (grpc_status.UNAVAILABLE, "the gateway is starting; try again")
NOT_OFFERED = (grpc_status.UNIMPLEMENTED, "this gateway offers no gRPC streams: it has no stream source")
_BAD_CONSISTENCY = (grpc_status.INVALID_ARGUMENT, MALFORMED.message)
_NOT_MONOTONIC = (
    grpc_status.UNIMPLEMENTED,
    "monotonic reads are not offered over gRPC, where one stream source answers: its updates come in order; make the "
    "call over HTTP, or without x-consistency",
)
_NO_REQUEST = (grpc_status.INTERNAL, "the call has no request message")
_TOO_LARGE = (grpc_status.RESOURCE_EXHAUSTED, f"the request is larger than {_REQUEST_BYTES_MAX} bytes")

Context = Any  # grpc.aio.ServicerContext, of bytes in both directions.


# Called for a bad request with the account's proof, its figures, the bytes and the filters of the request.
CountBad = Callable[[Proof, Figures, int, int], None]


class GeyserPort(Protocol):
    """The service behind the door, passed in by launch."""

    @property
    def is_up(self) -> bool: ...

    async def answer(self, rpc: api.Rpc, request: bytes, context: Context, proof: Proof, explain: Explain) -> bytes: ...

    async def subscribe(
        self,
        rpc: api.Rpc,
        requests: AsyncIterator[bytes],
        context: Context,
        proof: Proof,
        explain: Explain,
        count_bad: CountBad,
    ) -> None: ...


class GrpcDoor:
    """instructions: how to deposit, for the status texts. refused: called for every refusal, for limits and metrics."""

    def __init__(
        self,
        service: GeyserPort,
        authenticator: Authenticator,
        instructions: str,
        refused: Callable[[Err], None] | None = None,
    ) -> None:
        self._service, self._authenticator, self._instructions = service, authenticator, instructions
        self._refused = refused

    @property
    def is_up(self) -> bool:
        return self._service.is_up

    async def answer(self, rpc: api.Rpc, requests: AsyncIterator[bytes], context: Context) -> bytes:
        proof, explain, _ = await self._caller(rpc, context)
        request = await _only(requests, context)  # Afterwards: decompressing a stranger's request is work as well.
        if len(request) > _REQUEST_BYTES_MAX:
            await _abort(context, _TOO_LARGE)
        return await self._service.answer(rpc, request, context, proof, explain)

    async def subscribe(self, rpc: api.Rpc, requests: AsyncIterator[bytes], context: Context) -> None:
        await self._service.subscribe(rpc, requests, context, *await self._caller(rpc, context))

    async def _caller(self, rpc: api.Rpc, context: Context) -> tuple[Proof, Explain, CountBad]:
        headers = credentials(context.invocation_metadata() or ())
        words = {parse_consistency(value) for name, value in headers if name == CONSISTENCY}
        if words - {False}:
            await _abort(context, _NOT_MONOTONIC if words <= {True, False} else _BAD_CONSISTENCY)
        client = AsgiClient(headers, _peer(context.peer()))
        # A wallet signs the method POST, the path of the call, and an empty body: the body of a stream has no end.
        request = Request("POST", rpc.path.encode(), b"", headers, b"", "", client)
        caller = self._authenticator.authenticate(request)
        if isinstance(caller, Refusal):
            self._count(caller)
            if caller == DUPLICATE_HEADER:
                caller = _SENT_TWICE
            elif caller.err is Err.AUTH_FAILED and _has_token(context):
                caller = _BAD_TOKEN
            if caller.err is Err.PAYMENT_REQUIRED:
                await _abort(context, grpc_status.no_credentials(self._instructions))
            await _abort(context, grpc_status.explain(caller, self._instructions))
        proof = caller.proof

        def explain(refusal: Refusal) -> tuple[int, str]:
            self._count(refusal)
            self._authenticator.count_refusal_of(proof, refusal.err, client)
            return grpc_status.explain(refusal, self._instructions)

        def count_bad(proof: Proof, figures: Figures, body_bytes: int, filters: int) -> None:
            self._count(_BAD_REQUEST)
            cost = cost_of(body_bytes=body_bytes, filters=filters)
            self._authenticator.count_refusal_of(proof, _BAD_REQUEST.err, client, figures, cost)

        return proof, explain, count_bad

    def _count(self, refusal: Refusal) -> None:
        if self._refused is not None:
            self._refused(refusal.err)


def _has_token(context: Context) -> bool:
    return any(name == TOKEN_METADATA for name, _ in context.invocation_metadata() or ())


def credentials(metadata: Any) -> list[tuple[bytes, bytes]]:
    """The metadata as headers. An x-token becomes the header of its kind of credential.

    A second x-token becomes the same header as the first, whatever its kind, so that it is refused as sent twice.
    A token of 64 hexadecimal characters is a session token, or an API key of the older form: see geyser_service.
    """
    headers: list[tuple[bytes, bytes]] = []
    is_key: bool | None = None
    for name, value in metadata:
        text = value if isinstance(value, bytes) else value.encode("latin-1", "replace")
        if name == TOKEN_METADATA:
            is_key = text.startswith(KEY_PREFIX.encode()) if is_key is None else is_key
            headers.append((b"x-api-key", text) if is_key else (b"authorization", b"Bearer " + text))
        else:
            headers.append((name.encode("latin-1", "replace"), text))
    return headers


def _peer(text: str) -> str | None:
    """Return the address in gRPC's name of a peer: "ipv4:127.0.0.1:5000", "ipv6:%5B::1%5D:5000"."""
    kind, _, rest = text.partition(":")
    if kind not in ("ipv4", "ipv6"):
        return None
    return rest.rpartition(":")[0].replace("%5B", "").replace("%5D", "")


async def _abort(context: Context, status: tuple[int, str]) -> NoReturn:
    await context.abort(next(code for code in grpc.StatusCode if code.value[0] == status[0]), status[1])
    raise AssertionError("abort always raises")


# --- of this process

_door: GrpcDoor | None = None
_refusal = _STARTING


def open_grpc(door: GrpcDoor | None, refusal: tuple[int, str] = _STARTING) -> None:
    """Send this process's calls to this door; None: refuse them, because the gateway is not ready or has stopped."""
    global _door, _refusal
    _door, _refusal = door, refusal


def add_services(servicer: Any, server: Any) -> None:
    """Add the services to Serve's gRPC server; named in Serve's gRPC options. servicer: Serve's own, not used."""
    del servicer
    handlers = {rpc.name: _handler(rpc) for rpc in api.RPCS}
    health = {
        "Check": grpc.stream_unary_rpc_method_handler(
            _check_health,
            request_deserializer=health_pb2.HealthCheckRequest.FromString,
            response_serializer=health_pb2.HealthCheckResponse.SerializeToString,
        )
    }
    for service, methods in ((api.SERVICE, handlers), (HEALTH_SERVICE, health)):
        if hasattr(server, "add_passthrough_service"):
            server.add_passthrough_service(service)
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, methods),))


def _handler(rpc: api.Rpc) -> "grpc.RpcMethodHandler[Any, Any]":
    """Make the handler. Requests and answers are bytes, so that updates are encoded once for all clients."""
    if rpc.is_stream:

        async def subscribe(requests: AsyncIterator[bytes], context: Context) -> None:
            if _door is None:
                await _abort(context, _refusal)
            await _door.subscribe(rpc, requests, context)

        return grpc.stream_stream_rpc_method_handler(subscribe)

    async def answer(requests: AsyncIterator[bytes], context: Context) -> bytes:
        if _door is None:
            await _abort(context, _refusal)
        return await _door.answer(rpc, requests, context)

    return grpc.stream_unary_rpc_method_handler(answer)


async def _only(requests: AsyncIterator[Any], context: Context) -> Any:
    """Return the message of a call that is no stream. Without one gRPC's own handler never ends such a call, and the
    call would keep its connection."""
    request = await anext(aiter(requests), None)
    if request is None:
        await _abort(context, _NO_REQUEST)
    return request


async def _check_health(
    requests: AsyncIterator[health_pb2.HealthCheckRequest], context: Context
) -> health_pb2.HealthCheckResponse:
    request = await _only(requests, context)
    if request.service not in ("", api.SERVICE):
        await context.abort(grpc.StatusCode.NOT_FOUND, "unknown service")
    return _HEALTHY if _door is not None and _door.is_up else _NOT_HEALTHY
