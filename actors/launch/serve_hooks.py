"""The hook that Ray Serve calls in each process that serves HTTP, just before that process listens.

Implements: design, section 2 (straight to replicas); hostile inputs 48 and 58. Named to Serve by
RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH. Wiring: the rules are in gateway/serve_edge.py.

The hook also prevents a replica from opening Serve's port for calls between deployments. That port listens on all
addresses, accepts pickled objects and needs no token, unlike Ray's own ports. Any client that reaches it could run code
in the replica. This service has one deployment, and Serve uses Ray's actor calls (RAY_SERVE_USE_GRPC_BY_DEFAULT=0), so
the port is not needed.
"""

from typing import Any

from starlette.middleware import Middleware

from actors.gateway import serve_edge


def middlewares() -> list[Middleware]:
    """Return the middlewares of this process, for Serve.

    Raises RuntimeError when the port cannot be closed; then the process does not listen.
    """
    close_port_between_deployments()
    return serve_edge.middlewares()


def close_port_between_deployments() -> None:
    from ray.serve._private import replica

    if not hasattr(replica, "add_port_to_grpc_server"):
        raise RuntimeError("Ray Serve opens the ports of its replicas in another way than this version expects")
    replica.add_port_to_grpc_server = _no_port


def _no_port(server: Any, address: str) -> int:
    """Replaces Serve's function that binds the server: the server starts without a port."""
    return 0
