"""What Serve's hook puts in place in a process that listens."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from ray.serve._private import controller, default_impl, grpc_util, proxy_state, replica
from uvicorn.config import HTTP_PROTOCOLS

from actors.config import ServeConfig
from actors.gateway.doors.serve_layer import ServeLayer
from actors.http_server.server import HttpServer
from actors.launch.front import config as front_config
from actors.launch.front import serve_grpc, serve_hooks
from actors.launch.front import tls_edge_config as replica_config
from actors.launch.local_run import cluster


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    protocol, opener = HTTP_PROTOCOLS["auto"], replica.add_port_to_grpc_server
    shut_down = replica.Replica.perform_graceful_shutdown
    server, binder = grpc_util.gRPCGenericServer, default_impl.add_grpc_address
    yield
    HTTP_PROTOCOLS["auto"], replica.add_port_to_grpc_server = protocol, opener
    grpc_util.gRPCGenericServer, default_impl.add_grpc_address = server, binder  # type: ignore[misc]
    replica.Replica.perform_graceful_shutdown = shut_down


def test_the_hook_puts_the_replica_and_the_time_limit_in_place() -> None:
    """One hook for all that this service changes in Serve's HTTP server."""
    (middleware,) = serve_hooks.middlewares()
    assert middleware.cls is ServeLayer
    http: Any = HTTP_PROTOCOLS["auto"]
    assert http.func is HttpServer and http.args[0].arrival_seconds_max == 10


@pytest.mark.threat(58)
async def test_a_replica_opens_no_port_for_pickled_calls() -> None:
    """Threat 58: Serve's port between deployments is on all addresses and takes what pickle takes, from anybody.
    The server that Serve starts afterwards listens nowhere."""
    serve_hooks.middlewares()
    server = grpc.aio.server()
    assert replica.add_port_to_grpc_server(server, "[::]:0") == 0
    await asyncio.wait_for(server.start(), 5)
    await server.stop(None)


@pytest.mark.parametrize(
    ("owner", "name", "told"),
    [
        (replica, "add_port_to_grpc_server", "ports of its replicas"),  # It would listen for anybody's code.
        (
            replica.Replica,
            "perform_graceful_shutdown",
            "stops its replicas",
        ),  # Streams would be cut off without a word.
        (grpc_util, "gRPCGenericServer", "gRPC server in another way"),
    ],
    ids=["port", "stop", "grpc"],
)
def test_a_serve_that_lacks_a_part_that_is_changed_does_not_listen(
    monkeypatch: pytest.MonkeyPatch, owner: object, name: str, told: str
) -> None:
    """A replica that would do without one of our changes must not start."""
    monkeypatch.delattr(owner, name)
    with pytest.raises(RuntimeError, match=told):
        serve_hooks.middlewares()


def test_serve_starts_no_proxy_of_its_own_beside_haproxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Serve's controller calls the hook at its start. Where Serve starts the proxy in another way, it may."""
    manager, name = proxy_state.ProxyStateManager, "_start_fallback_proxy_if_needed"
    monkeypatch.setattr(manager, name, getattr(manager, name))
    serve_hooks.without_fallback_proxy()
    made: Any = object.__new__(manager)
    getattr(made, name)("node", "127.0.0.1", "instance")  # It would need all that a manager has.
    assert cluster.ray_environment(ServeConfig(), Path("/run"))["RAY_SERVE_CONTROLLER_CALLBACK_IMPORT_PATH"] == (
        f"{serve_hooks.__name__}:{serve_hooks.set_up_controller.__name__}"
    )
    monkeypatch.delattr(manager, name)
    serve_hooks.without_fallback_proxy()
    assert not hasattr(manager, name)


def test_serves_controller_hurries_while_the_product_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rounds are what a start waits for, and cost a hundredth of a core at rest if they stay as frequent."""
    name = "CONTROL_LOOP_INTERVAL_S"
    monkeypatch.setattr(serve_hooks, "_HURRIED_SECONDS", 0.05)
    monkeypatch.setattr(controller, name, 0.5)
    serve_hooks.hurry_at_first()
    assert controller.CONTROL_LOOP_INTERVAL_S == 0.1
    deadline = time.monotonic() + 5
    while controller.CONTROL_LOOP_INTERVAL_S != 0.5:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    monkeypatch.setattr(controller, name, 0.05)
    serve_hooks.hurry_at_first()
    assert controller.CONTROL_LOOP_INTERVAL_S == 0.05
    monkeypatch.delattr(controller, name)
    serve_hooks.hurry_at_first()
    assert not hasattr(controller, name)


def test_serve_is_told_to_need_no_such_port() -> None:
    """Calls from Serve's own proxy go Ray's way, which asks for the token."""

    environment = cluster.ray_environment(ServeConfig(), Path("/run"))
    assert environment["RAY_SERVE_USE_GRPC_BY_DEFAULT"] == environment["RAY_SERVE_PROXY_USE_GRPC"] == "0"
    assert environment["RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH"] == "actors.launch.front.serve_hooks:middlewares"


@pytest.mark.parametrize(
    ("node", "bound_to"),
    [
        ("127.0.0.1", ["127.0.0.1:4711"]),
        ("192.0.2.7", ["127.0.0.1:4711", "192.0.2.7:4711"]),
        ("2001:db8::7", ["127.0.0.1:4711", "[2001:db8::7]:4711"]),
    ],
)
@pytest.mark.threat(58)
async def test_the_grpc_server_of_a_replica_listens_where_fronts_reach_it(
    monkeypatch: pytest.MonkeyPatch, node: str, bound_to: list[str]
) -> None:
    """Threat 58: Serve binds it to all addresses, so that everybody could pass the front by. Here the front of
    the same machine reaches it at the loopback, as Serve tells HAProxy, and those of others at the node's address.
    It is ours, above all for the largest request."""
    monkeypatch.setattr("ray.util.get_node_ip_address", lambda: node)
    monkeypatch.setattr("ray._common.network_utils.get_localhost_ip", lambda: "127.0.0.1")
    serve_hooks.middlewares()
    asked: list[str] = []
    bound = default_impl.add_grpc_address
    bound(type("Server", (), {"add_insecure_port": staticmethod(asked.append)}), "[::]:4711")  # type: ignore[arg-type]
    assert asked == bound_to
    assert grpc_util.gRPCGenericServer is serve_grpc.ServeGrpcServer
    assert serve_grpc.MESSAGE_BYTES_MAX == 4 << 20


def test_a_replica_waits_longer_for_the_front_than_the_front_for_a_client() -> None:
    """Threat 73: while a client reads nothing, HAProxy answers no ping of the replica on its connection. Cut off
    before the client reads again, the stream would end without its status."""
    assert serve_grpc.SILENT_SECONDS > front_config.IDLE_SECONDS
    assert replica_config._CLIENT_SECONDS >= front_config.IDLE_SECONDS


@pytest.mark.parametrize(("module", "name"), [("default_impl", "add_grpc_address"), ("grpc_util", "start_grpc_server")])
def test_the_parts_of_serve_that_are_changed_are_there(module: str, name: str) -> None:
    """Another version of Serve that starts its gRPC server in another way fails here first."""
    assert hasattr({"default_impl": default_impl, "grpc_util": grpc_util}[module], name)


async def test_a_replica_tells_its_door_when_serve_begins_to_stop_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before Serve waits for the front; Serve's own steps follow. Put in place once, however often the hook runs."""
    told: list[object] = []

    async def shut_down(self: object) -> None:
        told.append("serve")

    monkeypatch.setattr(replica.Replica, "perform_graceful_shutdown", shut_down)
    monkeypatch.setattr(serve_hooks.serve_layer, "leave", told.append)
    serve_hooks.tell_doors_of_leaving()
    serve_hooks.tell_doors_of_leaving()
    await replica.Replica.perform_graceful_shutdown(None)
    assert told == [serve_hooks.drain_seconds(), "serve"]
    assert serve_hooks.drain_seconds() > 0
