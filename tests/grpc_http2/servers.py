"""A server with methods that tests need, in the test process, over real sockets."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc

from actors.grpc_http2.server import GrpcServer

SERVICE = "test.Service"
MESSAGE_BYTES_MAX = 100_000


class Methods:
    """Echo: each request back, with the metadata that came. Pour: `bytes` bytes at once, in messages of `size`, then
    OK. Upper: one request, one answer. Fail, Refuse, Sleep: as they are named. cancelled: handlers that were ended."""

    def __init__(self) -> None:
        self.cancelled = self.running = 0
        self.poured = 0
        self.count, self.size = 10, 1_000

    async def echo(self, requests: Any, context: Any) -> None:
        self.running += 1
        try:
            await context.send_initial_metadata((("x-said", "hello"),))
            async for request in requests:
                await context.write(request)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.running -= 1

    async def pour(self, requests: Any, context: Any) -> None:
        self.running += 1
        try:
            for number in range(self.count):
                await context.write(number.to_bytes(4) + bytes(self.size))
                self.poured = number + 1
        finally:
            self.running -= 1

    async def upper(self, request: bytes, context: Any) -> bytes:
        context.set_trailing_metadata((("x-left", str(context.time_remaining() is not None)),))
        return request.upper()

    async def fail(self, requests: Any, context: Any) -> None:
        raise ValueError("a secret of the service")

    async def refuse(self, requests: Any, context: Any) -> None:
        await context.write(b"first")
        await context.abort(grpc.StatusCode.OUT_OF_RANGE, "bis 5 — 50 % übrig\nx: y", (("x-resume", "5"),))

    async def sleep(self, request: bytes, context: Any) -> bytes:
        self.running += 1
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.running -= 1
        return b""

    def handler(self) -> Any:
        streams = {"Echo": self.echo, "Pour": self.pour, "Fail": self.fail, "Refuse": self.refuse}
        handlers: dict[str, Any] = {name: grpc.stream_stream_rpc_method_handler(do) for name, do in streams.items()}
        handlers |= {"Upper": grpc.unary_unary_rpc_method_handler(self.upper)}
        handlers |= {"Sleep": grpc.unary_unary_rpc_method_handler(self.sleep)}
        return grpc.method_handlers_generic_handler(SERVICE, handlers)


def framed(*messages: bytes) -> bytes:
    return b"".join(b"\0" + len(one).to_bytes(4) + one for one in messages)


@asynccontextmanager
async def serving(methods: Methods, **settings: float) -> AsyncIterator[tuple[GrpcServer, int]]:
    server = GrpcServer(MESSAGE_BYTES_MAX, **settings)
    server.add_generic_rpc_handlers((methods.handler(),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield server, port
    finally:
        await server.stop(None)
        assert methods.running == 0, "a handler outlived its server"


async def until(condition: Any) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - what is waited for tells nobody.
            await asyncio.sleep(0.01)
