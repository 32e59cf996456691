"""The host's own no-op: Ray Serve in HAProxy mode with an empty ASGI application, as `python -m bench.noop`.

Every figure of the product can be read as a multiple of it: the no-op shows how fast this machine is in this minute.
It runs with the product's own Ray and Serve settings, except for the product's way past Serve's request wrapper and its
rules for HAProxy.
"""

import os
import signal
import tempfile
import threading
from pathlib import Path
from typing import Annotated, Any

import typer

from actors.config import ServeConfig
from actors.launch import cluster

_ANSWER = b'{"jsonrpc":"2.0","result":0,"id":1}'
_HEADERS = [(b"content-type", b"application/json"), (b"content-length", str(len(_ANSWER)).encode())]


async def empty(scope: Any, receive: Any, send: Any) -> None:
    """The least that an ASGI application can do."""
    if scope["type"] != "http":
        return
    while (await receive()).get("more_body", False):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
    await send({"type": "http.response.body", "body": _ANSWER})


def application() -> Any:
    """The bound Serve application, with as many replicas as the product has by default."""
    from ray import serve

    @serve.deployment(
        num_replicas=max(1, (os.cpu_count() or 1) // 2),
        max_ongoing_requests=100_000,
        ray_actor_options={"num_cpus": 0.1},
        logging_config={"enable_access_log": False, "log_level": "WARNING"},
    )
    @serve.ingress(lambda: empty)
    class NoOp:
        pass

    deployment: Any = NoOp
    return deployment.bind()


def main(
    http_port: Annotated[int, typer.Option(help="Port that HAProxy listens on.")],
    internal_port_first: Annotated[int, typer.Option(help="First of 1,000 ports for the cluster's own use.")],
) -> None:
    """Serve until SIGTERM."""
    settings = ServeConfig(http_port=http_port, internal_port_first=internal_port_first)
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    with tempfile.TemporaryDirectory(prefix="noop-") as folder:  # Short: HAProxy's sockets in it have long names.
        environment = cluster.ray_environment(settings, Path(folder))
        for name in ("RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH", "RAY_SERVE_HAPROXY_BINARY_PATH"):
            del environment[name]
        head = None
        try:
            head = cluster.start_ray(environment)
            cluster.start_serve(settings, None)
            cluster.run_application(application())
            stop.wait()
        finally:
            cluster.stop_ray(head, lambda _: None, (), head is not None)


if __name__ == "__main__":
    typer.run(main)
