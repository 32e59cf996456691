"""The server of gRPC that Ray Serve starts in each replica: ours, in place of grpcio's.

Implements: the part of Serve's `gRPCGenericServer` that its replicas use. Wiring: serve_hooks.py puts it in place;
grpc_http2/server.py is the server. Serve's own service (its health check, which HAProxy asks) goes to Serve's handlers;
services that pass Serve's request path by, all of this product, go to their own.
"""

from collections.abc import Callable, Sequence
from typing import Any

import grpc
from ray.serve._private.proxy_request_response import gRPCStreamingType

from actors.grpc_http2.server import GrpcServer

MESSAGE_BYTES_MAX = 4 * 1024 * 1024  # Of a request: Yellowstone's default.
QUIET_SECONDS = 30.0
# While a client reads nothing, HAProxy reads nothing of that client's connection here, pings included. With less than
# the 75 s for which the front waits (front_config.IDLE_SECONDS), the connection would be cut before the client reads
# again, and the status that waits behind its updates with it.
SILENT_SECONDS = 90.0


class ServeGrpcServer(GrpcServer):
    """handler_of: Serve's, for the methods of its own service. extra_options: of grpcio, without effect here."""

    def __init__(
        self, handler_of: Callable[..., Any], *, extra_options: Sequence[tuple[str, Any]] | None = None
    ) -> None:
        super().__init__(MESSAGE_BYTES_MAX, QUIET_SECONDS, SILENT_SECONDS)
        self._handler_of = handler_of
        self._passing_by: set[str] = set()
        self.generic_rpc_handlers: list[Sequence[grpc.GenericRpcHandler]] = []  # Serve reads their names.

    def add_passthrough_service(self, name: str) -> None:
        self._passing_by.add(name)

    def add_generic_rpc_handlers(self, handlers: Sequence[grpc.GenericRpcHandler]) -> None:
        (generic,) = handlers
        methods: dict[str, Any] = generic._method_handlers  # type: ignore[attr-defined]
        for path, handler in methods.items():
            if path.split("/")[1] not in self._passing_by:
                # Serve's handlers give bytes.
                unary = self._handler_of(service_method=path, streaming_type=gRPCStreamingType.UNARY_UNARY)
                methods[path] = handler._replace(response_serializer=None, unary_unary=unary)
        self.generic_rpc_handlers.append(handlers)
        super().add_generic_rpc_handlers(handlers)
