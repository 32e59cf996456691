"""The hook that Ray Serve calls in each process that listens for HTTP, just before that process listens.

Implements: design, section 2 (straight to replicas); hostile inputs 48 and 58. Named to Serve by
RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH. Wiring: what it puts in place is gateway/serve_edge.py's and
gateway/slow_requests.py's.

It also keeps a replica from opening Serve's port for calls between deployments. That port takes pickled objects from
whoever reaches it, on all addresses and without the token that Ray's own ports ask for, so it would run anybody's code.
This service has one deployment and Serve is told to use Ray's calls (RAY_SERVE_USE_GRPC_BY_DEFAULT=0), so nothing is
lost.
"""

from typing import Any

from starlette.middleware import Middleware

from actors.gateway import serve_edge, slow_requests


def middlewares() -> list[Middleware]:
    """Serve's hook. Raises RuntimeError, and so keeps the process from listening, when the port cannot be closed."""
    close_port_between_deployments()
    found = serve_edge.middlewares()
    slow_requests.use()
    return found


def close_port_between_deployments() -> None:
    from ray.serve._private import replica

    if not hasattr(replica, "add_port_to_grpc_server"):
        raise RuntimeError("Ray Serve opens the ports of its replicas in another way than this version expects")
    replica.add_port_to_grpc_server = _no_port


def _no_port(server: Any, address: str) -> int:
    """In place of the function that binds the server: it starts, and nobody can reach it."""
    return 0
