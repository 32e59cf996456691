"""The server as Ray Serve starts it: Serve's own start, its health check, and services that pass it by."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from ray.serve._private import grpc_util
from ray.serve.config import gRPCOptions
from ray.serve.generated import serve_pb2, serve_pb2_grpc

from actors.gateway.doors import grpc as door_grpc
from actors.geyser_proto import api
from actors.launch.front import serve_hooks
from actors.launch.front.serve_grpc import ServeGrpcServer
from bench.systems import free_port


@contextlib.asynccontextmanager
async def served_by_serve(handler_of: Any) -> AsyncIterator[str]:
    """Serve's own function starts the server, as in a replica."""
    port = free_port()
    options = gRPCOptions(port=port, grpc_servicer_functions=[f"{door_grpc.__name__}.add_services"])
    task, server = await grpc_util.start_grpc_server(handler_of, options, event_loop=asyncio.get_running_loop())
    assert isinstance(server, ServeGrpcServer)
    yield f"127.0.0.1:{port}"
    await server.stop(1)
    await asyncio.wait_for(task, 5)


async def test_serves_own_start_and_health_check_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """HAProxy asks Serve's service for its health; calls of ours pass Serve's request path by."""
    asked: list[str] = []

    def handler_of(service_method: str, streaming_type: Any) -> Any:
        del streaming_type

        async def answer(request: Any, context: Any) -> bytes:
            asked.append(f"{service_method} {type(request).__name__}")
            context.set_code(grpc.StatusCode.OK)
            context.set_details("success")
            return serve_pb2.HealthzResponse(message="success").SerializeToString()

        return answer

    for owner, name in ((grpc_util, "gRPCGenericServer"), (serve_hooks, "_add_private_address")):
        monkeypatch.setattr(owner, name, getattr(owner, name))
    monkeypatch.setattr("ray.serve._private.default_impl.add_grpc_address", None)
    monkeypatch.setattr("ray.util.get_node_ip_address", lambda: "127.0.0.1")
    serve_hooks.replace_grpc_server()
    async with served_by_serve(handler_of) as target, grpc.aio.insecure_channel(target) as channel:
        stub: Any = serve_pb2_grpc.RayServeAPIServiceStub(channel)
        assert (await stub.Healthz(serve_pb2.HealthzRequest(), timeout=10)).message == "success"
        assert asked == ["/ray.serve.RayServeAPIService/Healthz HealthzRequest"]
        call: Any = channel.unary_unary(api.GET_SLOT.path)(b"", timeout=10)
        assert await call.code() is grpc.StatusCode.UNAVAILABLE  # Our door, which is not open.
        assert len(asked) == 1
