"""`python -m bench.grpc_relay`: the least that a Python program does to pass a gRPC stream on, for bench.grpc_streams.

One task reads what the source sends, another writes it to the client; nothing is decoded, charged or limited. The
event loop and gRPC's options are those of a replica of the gateway, so what a stream through the gateway takes more is
the gateway's own work and HAProxy's.
"""

import argparse
import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Any

import grpc
import uvloop

from actors.geyser_proto import api
from bench.grpc_server import started

_ANY_SIZE = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


class Relay:
    """source: host:port of a Yellowstone endpoint."""

    def __init__(self, source: str) -> None:
        self._subscribe: Any = grpc.aio.insecure_channel(source, options=_ANY_SIZE).stream_stream(api.SUBSCRIBE.path)

    async def subscribe(self, requests: AsyncIterator[bytes], context: Any) -> None:
        call = self._subscribe()
        await call.write(await anext(requests))
        waiting: deque[bytes] = deque()
        has_come = asyncio.Event()

        async def read() -> None:
            while True:
                waiting.append(await call.read())
                has_come.set()

        reading = asyncio.create_task(read())
        try:
            while True:
                while not waiting:
                    has_come.clear()
                    await has_come.wait()
                await context.write(waiting.popleft())
        finally:
            reading.cancel()


async def serve(port: int, source: str) -> None:
    """Serve until cancelled."""
    handlers: dict[str, Any] = {api.SUBSCRIBE.name: grpc.stream_stream_rpc_method_handler(Relay(source).subscribe)}
    server = await started(port, handlers, _ANY_SIZE)
    await server.wait_for_termination()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--source", required=True, help="host:port")
    given = parser.parse_args()
    uvloop.run(serve(given.port, given.source))
