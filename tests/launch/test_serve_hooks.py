"""What Serve's hook puts in place in a process that listens."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from ray.serve._private import replica
from uvicorn.config import HTTP_PROTOCOLS

from actors.config import ServeConfig
from actors.gateway.serve_edge import ServeEdge
from actors.http_server.server import HttpServer
from actors.launch import cluster, serve_hooks


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    protocol, opener = HTTP_PROTOCOLS["auto"], replica.add_port_to_grpc_server
    yield
    HTTP_PROTOCOLS["auto"], replica.add_port_to_grpc_server = protocol, opener


def test_the_hook_puts_the_edge_and_the_time_limit_in_place() -> None:
    """One hook for all that this service changes in Serve's HTTP server."""
    (middleware,) = serve_hooks.middlewares()
    assert middleware.cls is ServeEdge
    http: Any = HTTP_PROTOCOLS["auto"]
    assert http.func is HttpServer and http.args[0].arrival_seconds_max == 10


async def test_row_58_a_replica_opens_no_port_for_pickled_calls() -> None:
    """Hostile input 58: Serve's port between deployments is on all addresses and takes what pickle takes, from anybody.
    The server that Serve starts afterwards listens nowhere."""
    serve_hooks.middlewares()
    server = grpc.aio.server()
    assert replica.add_port_to_grpc_server(server, "[::]:0") == 0
    await asyncio.wait_for(server.start(), 5)
    await server.stop(None)


def test_a_serve_whose_port_cannot_be_closed_does_not_listen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A replica that would listen for anybody's code must not start."""
    monkeypatch.delattr(replica, "add_port_to_grpc_server")
    with pytest.raises(RuntimeError, match="ports of its replicas"):
        serve_hooks.middlewares()


def test_serve_is_told_to_need_no_such_port() -> None:
    """Calls from Serve's own proxy go Ray's way, which asks for the token."""

    environment = cluster.ray_environment(ServeConfig(), Path("/run"))
    assert environment["RAY_SERVE_USE_GRPC_BY_DEFAULT"] == environment["RAY_SERVE_PROXY_USE_GRPC"] == "0"
    assert environment["RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH"] == "actors.launch.serve_hooks:middlewares"
