"""Starts the Yellowstone servers of measurements: sources and the relay."""

from collections.abc import Sequence
from typing import Any

import grpc

from actors.geyser_proto import api


async def started(port: int, handlers: dict[str, Any], options: Sequence[tuple[str, int]] = ()) -> grpc.aio.Server:
    """Return a server of geyser.Geyser that listens on the loopback. handlers: grpc's own, by the name of the call."""
    server = grpc.aio.server(options=options)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(api.SERVICE, handlers),))
    server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    return server
