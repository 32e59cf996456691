"""The hook that Ray Serve calls in each process that serves HTTP, just before that process listens.

Implements: design, "Measured facts" (straight to replicas); threats 48 and 58. Named to Serve by
RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH. Wiring: the rules are in gateway/doors/serve_layer.py.

The hook also prevents a replica from opening Serve's port for calls between deployments. That port listens on all
addresses, accepts pickled objects and needs no token, unlike Ray's own ports. Any client that reaches it could run code
in the replica. This service has one deployment, and Serve uses Ray's actor calls (RAY_SERVE_USE_GRPC_BY_DEFAULT=0), so
the port is not needed.

The gRPC server for clients starts after HTTP. The hook has Serve start ours (serve_grpc.py) in place of grpcio's, at
the node's own address and the loopback, where Serve binds it to all addresses.

Serve tells a replica that it will be stopped 30 s before (RAY_SERVE_DIRECT_INGRESS_MIN_DRAINING_PERIOD_S), and the
application when all is over. The hook passes the first on to the door, whose streams end in that time.

Another hook is of the process of Serve's controller, in a local run (RAY_SERVE_CONTROLLER_CALLBACK_IMPORT_PATH).
"""

import logging
import threading
from typing import Any

from starlette.middleware import Middleware

from actors.gateway.doors import serve_layer

logger = logging.getLogger(__name__)

_PAUSE = "CONTROL_LOOP_INTERVAL_S"  # Of the rounds of Serve's controller, in the module that takes them.
_HURRIED_PAUSE_SECONDS, _HURRIED_SECONDS = 0.1, 30.0


def middlewares() -> list[Middleware]:
    """Return the middlewares of this process, for Serve.

    Raises RuntimeError when the port cannot be closed; then the process does not listen.
    """
    close_port_between_deployments()
    replace_grpc_server()
    tell_doors_of_leaving()
    return serve_layer.middlewares()


def close_port_between_deployments() -> None:
    from ray.serve._private import replica

    if not hasattr(replica, "add_port_to_grpc_server"):
        raise RuntimeError("Ray Serve opens the ports of its replicas in another way than this version expects")
    replica.add_port_to_grpc_server = _no_port


def replace_grpc_server() -> None:
    from ray._common import network_utils
    from ray.serve._private import default_impl, grpc_util

    has_all = hasattr(grpc_util, "gRPCGenericServer") and hasattr(default_impl, "add_grpc_address")
    if not has_all or not hasattr(network_utils, "get_localhost_ip"):
        raise RuntimeError("Ray Serve starts its gRPC server in another way than this version expects")
    from actors.launch.front.serve_grpc import ServeGrpcServer

    grpc_util.gRPCGenericServer = ServeGrpcServer
    default_impl.add_grpc_address = _add_private_address


def set_up_controller() -> None:
    without_fallback_proxy()
    hurry_at_first()


def hurry_at_first() -> None:
    """Have Serve's controller take its rounds ten times a second while the product starts.

    It starts HAProxy and replicas, sees that they run, and tells HAProxy of them in rounds: a start waits for several.
    Afterwards the pause is as it was set. Where Serve keeps it otherwise, it is as it was set from the beginning.
    """
    from ray.serve._private import controller

    pause_seconds = getattr(controller, _PAUSE, None)
    if not isinstance(pause_seconds, float) or pause_seconds <= _HURRIED_PAUSE_SECONDS:
        return
    setattr(controller, _PAUSE, _HURRIED_PAUSE_SECONDS)
    later = threading.Timer(_HURRIED_SECONDS, setattr, (controller, _PAUSE, pause_seconds))
    later.daemon = True
    later.start()


def without_fallback_proxy() -> None:
    """Have Serve's controller start no proxy in Python beside HAProxy: a process of 100 MB that nobody asks.

    HAProxy would ask it while no replica is up; the rules of the front take it out (front/config.py), as it queues
    without bound. Serve has no switch for it. Where Serve starts it in another way, it is started.
    """
    from ray.serve._private import proxy_state

    if not hasattr(proxy_state.ProxyStateManager, "_start_fallback_proxy_if_needed"):
        logger.info("Serve's own proxy is started beside HAProxy: Serve starts it in another way than expected")
        return
    proxy_state.ProxyStateManager._start_fallback_proxy_if_needed = _start_none


def _start_none(self: Any, node_id: str, node_ip_address: str, node_instance_id: str) -> None:
    """Replaces Serve's method that starts the proxy."""


def drain_seconds() -> float:
    """Return for how long Serve keeps a replica that it replaces before that replica takes no more connections."""
    from ray.serve._private import constants

    return float(constants.RAY_SERVE_DIRECT_INGRESS_MIN_DRAINING_PERIOD_S)


def tell_doors_of_leaving() -> None:
    """Have each replica tell its door when Serve begins to stop it. Serve itself tells an application at the end alone,
    when its streams have been cut off."""
    from ray.serve._private import replica

    shut_down = getattr(replica.Replica, "perform_graceful_shutdown", None)
    if shut_down is None:
        raise RuntimeError("Ray Serve stops its replicas in another way than this version expects")
    if getattr(shut_down, "tells_door", False):
        return

    async def tell_and_shut_down(self: Any) -> None:
        serve_layer.leave(drain_seconds())
        await shut_down(self)

    tell_and_shut_down.tells_door = True  # type: ignore[attr-defined]
    replica.Replica.perform_graceful_shutdown = tell_and_shut_down


def _add_private_address(server: Any, address: str) -> None:
    """Replaces Serve's function that binds the server to all addresses.

    The front of another machine reaches a replica at its node's address, that of the same machine at the loopback.
    """
    from ray._common import network_utils
    from ray.util import get_node_ip_address

    port = address.rpartition(":")[2]
    for host in sorted({network_utils.get_localhost_ip(), get_node_ip_address()}):
        server.add_insecure_port(f"{f'[{host}]' if ':' in host else host}:{port}")


def _no_port(server: Any, address: str) -> int:
    """Replaces Serve's function that binds the server: the server starts without a port."""
    return 0
