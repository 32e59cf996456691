"""`python -m bench.noop`: runs Ray Serve in HAProxy mode with an empty ASGI application.

The no-op shows how fast this machine is at the moment, so every figure of the product can be given as a multiple of it.
It has the product's Ray and Serve settings, without the product's own HTTP server and HAProxy rules.
"""

import os
import signal
import tempfile
import threading
from pathlib import Path
from typing import Annotated, Any

import typer

from actors.config import ServeConfig
from actors.launch.local_run import cluster

_ANSWER = b'{"jsonrpc":"2.0","result":0,"id":1}'
_HEADERS = [(b"content-type", b"application/json"), (b"content-length", str(len(_ANSWER)).encode())]


async def empty(scope: Any, receive: Any, send: Any) -> None:
    """Answer every request with an empty body."""
    if scope["type"] != "http":
        return
    while (await receive()).get("more_body", False):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
    await send({"type": "http.response.body", "body": _ANSWER})


def application() -> Any:
    """Return the bound Serve application, with as many replicas as the product has by default."""
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
