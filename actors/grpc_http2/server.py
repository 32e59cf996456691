"""A server of gRPC for handlers of grpcio: which handler answers a call, and the life of the server.

Implements: the part of `grpc.aio.Server` that is used here, so that Ray Serve and tests start it as they start
grpcio's. Handlers are grpcio's own (`grpc.method_handlers_generic_handler`), of coroutines; those of one request and
one answer, of many requests and one answer, and of streams that write to their context.
grpcio takes 40 µs and more to write a message from Python, in a frame and a write of its own; this one joins messages
(connection.py). What it took, and why it is ours: docs/decisions/yellowstone-messages.md.
Not here: a call (server_call.py), frames (connection.py).
"""

import asyncio
import contextlib
import logging
import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc

from actors.background import Background
from actors.grpc_http2.server_call import ENCODINGS, ServerCall
from actors.grpc_http2.server_connection import ServerConnection
from actors.grpc_http2.turns import Turns

logger = logging.getLogger(__name__)

_BACKLOG = 4_096  # Streams of a replica that has died come back at once.
_LOOK_SECONDS = 10.0
_GREETING_SECONDS = 20.0
_FAILED = "the service failed; try again"


class GrpcServer:
    """message_bytes_max: of a request. A client with calls that is quiet for quiet_seconds is asked for a sign, and is
    cut off without one for silent_seconds more."""

    def __init__(self, message_bytes_max: int, quiet_seconds: float = 30.0, silent_seconds: float = 90.0) -> None:
        self._message_bytes_max = message_bytes_max
        self._quiet_seconds, self._silent_seconds = quiet_seconds, silent_seconds
        self._handlers: list[grpc.GenericRpcHandler] = []
        self._sockets: list[socket.socket] = []
        self._listening: list[asyncio.Server] = []
        self._connections: dict[ServerConnection, None] = {}
        self._turns = Turns()
        # One thread: several that decompress would leave the loop's own thread a small part of the processor.
        self._inflating = ThreadPoolExecutor(1, "grpc-inflating")
        self._watching = Background(logger, "watching connections of gRPC failed")
        self._stopped: asyncio.Event = asyncio.Event()
        self._empty: asyncio.Event = asyncio.Event()

    def add_generic_rpc_handlers(self, handlers: Sequence[grpc.GenericRpcHandler]) -> None:
        self._handlers += handlers

    def add_registered_method_handlers(self, service: str, handlers: dict[str, Any]) -> None:
        """Part of what generated code calls; it adds the same handlers as generic ones."""

    def add_insecure_port(self, address: str) -> int:
        """Bind a port of this address, host:port or [host]:port; returns the port. Raises RuntimeError.

        The cause of the error is the OSError, as Ray Serve looks for a port that is in use.
        """
        host, _, port = address.rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            bound = socket.create_server(
                (host, int(port)), family=family, backlog=_BACKLOG, dualstack_ipv6=host == "::"
            )
        except OSError as error:
            raise RuntimeError(f"cannot listen at {address}: {error}") from error
        self._sockets.append(bound)
        return int(bound.getsockname()[1])

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        for bound in self._sockets:
            self._listening.append(await loop.create_server(self._accept, sock=bound, backlog=_BACKLOG))
        self._watching.start(self._watch())

    async def wait_for_termination(self) -> None:
        await self._stopped.wait()

    async def stop(self, grace: float | None) -> None:
        """Take no more calls, and end those that last longer than so many seconds."""
        for listening in self._listening:
            listening.close()
        for connection in tuple(self._connections):
            connection.leave()
        if self._connections and grace:
            self._empty.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(grace):
                    await self._empty.wait()
        tasks = [call.task for connection in self._connections for call in connection.calls if call.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)  # Their ends go out with the next pass of the loop.
        for connection in tuple(self._connections):
            connection.close()
        self._inflating.shutdown(wait=False, cancel_futures=True)
        await self._watching.stop()
        self._stopped.set()

    # --- connections and calls

    def _accept(self) -> ServerConnection:
        connection = ServerConnection(self._begin, self._closed, self._message_bytes_max, self._turns, self._inflating)
        self._connections[connection] = None
        return connection

    def _closed(self, connection: ServerConnection) -> None:
        del self._connections[connection]
        if not self._connections:
            self._empty.set()

    async def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            now = loop.time()
            for connection in tuple(self._connections):
                if not connection.has_greeted and now - connection.heard_at > _GREETING_SECONDS:
                    connection.close()
                connection.watch(now, self._quiet_seconds, self._silent_seconds)

    def _begin(self, call: ServerCall) -> None:
        handler = self._handler(call)
        if handler is None:
            call.finish(grpc.StatusCode.UNIMPLEMENTED, "no such method")
        elif not call.knows_encoding:
            call.finish(grpc.StatusCode.UNIMPLEMENTED, f"grpc-encoding must be one of {ENCODINGS.decode()}")
        else:
            call.task = asyncio.get_running_loop().create_task(_run(call, handler))
            call.task.add_done_callback(call.forget_task)

    def _handler(self, call: ServerCall) -> Any:
        details = _Details(call.path, call.invocation_metadata())
        for generic in self._handlers:
            handler = generic.service(details)
            if handler is not None:
                return handler
        return None


class _Details(grpc.HandlerCallDetails):
    def __init__(self, method: str, invocation_metadata: Any) -> None:
        self.method, self.invocation_metadata = method, invocation_metadata


async def _run(call: ServerCall, handler: Any) -> None:
    """Answer a call with its handler. However it ends, the call ends once."""
    try:
        if handler.stream_stream is not None and handler.response_streaming:
            await handler.stream_stream(call, call)
        else:
            answer = await _answer(call, handler)
            call.out.put_message(_encoded(handler, answer))
        call.finish()
    except grpc.aio.AbortError:
        call.finish(grpc.StatusCode.CANCELLED, "")  # Has its status already, unless the client has left.
    except asyncio.CancelledError:
        call.finish(grpc.StatusCode.UNAVAILABLE, "the server stops")  # As above.
        raise
    except Exception:
        logger.exception("a handler of %s failed", call.path[:100])
        call.finish(grpc.StatusCode.UNKNOWN, _FAILED)


async def _answer(call: ServerCall, handler: Any) -> Any:
    if handler.request_streaming:
        return await handler.stream_unary(_decoded(call, handler), call)
    request = await anext(_decoded(call, handler), None)
    if request is None:
        await call.abort(grpc.StatusCode.INTERNAL, "the call has no request message")
    return await handler.unary_unary(request, call)


async def _decoded(call: ServerCall, handler: Any) -> Any:
    decode = handler.request_deserializer
    async for message in call:
        yield message if decode is None else decode(message)


def _encoded(handler: Any, answer: Any) -> bytes:
    encode = handler.response_serializer
    return bytes(answer if encode is None else encode(answer))
