"""`python -m bench.grpc_source`: a Yellowstone endpoint that sends small account updates as fast as it is told.

For measurements of streams: the embedded chain makes too few updates to fill a stream. A subscription's first account
filter tells the rate: `lamports.eq` is updates in a second, 0 as many as the connection takes. All subscriptions get
the statuses of a chain of slots; every update carries the time at which it was made.
"""

import argparse
import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc

from actors.geyser_proto import api, geyser_pb2
from bench.grpc_server import started

_SLOT_SECONDS = 0.4
Write = Callable[[geyser_pb2.SubscribeUpdate], Awaitable[None]]
_ACCOUNT = geyser_pb2.SubscribeUpdateAccountInfo(
    pubkey=bytes(32), lamports=1, owner=bytes(32), data=bytes(82), txn_signature=bytes(64)
)


class Source:
    """One endpoint; its slots are a function of the time."""

    def __init__(self) -> None:
        self._version = 0

    async def subscribe(self, requests: AsyncIterator[geyser_pb2.SubscribeRequest], context: Any) -> None:
        await context.send_initial_metadata(())
        request = await anext(requests)
        one_at_a_time = asyncio.Lock()  # gRPC takes one write of a stream at a time.

        async def write(update: geyser_pb2.SubscribeUpdate) -> None:
            async with one_at_a_time:
                await context.write(update)

        statuses = asyncio.create_task(self._slots(list(request.slots), write))
        answering = asyncio.create_task(self._answer_pings(requests, write))
        try:
            await self._accounts(request, write)
        finally:
            statuses.cancel()
            answering.cancel()

    async def _answer_pings(self, requests: AsyncIterator[geyser_pb2.SubscribeRequest], write: Write) -> None:
        async for request in requests:
            pong = geyser_pb2.SubscribeUpdatePong(id=request.ping.id)
            await write(geyser_pb2.SubscribeUpdate(pong=pong))

    async def _slots(self, names: list[str], write: Write) -> None:
        while True:
            for back, status in ((0, geyser_pb2.SLOT_PROCESSED), (1, geyser_pb2.SLOT_CONFIRMED)):
                slot = geyser_pb2.SubscribeUpdateSlot(slot=_slot() - back, parent=_slot() - back - 1, status=status)
                if names:
                    await write(geyser_pb2.SubscribeUpdate(filters=names, slot=slot))
            final = geyser_pb2.SubscribeUpdateSlot(slot=_slot() - 32, status=geyser_pb2.SLOT_FINALIZED)
            if names:
                await write(geyser_pb2.SubscribeUpdate(filters=names, slot=final))
            await asyncio.sleep(_SLOT_SECONDS)

    async def _accounts(self, request: geyser_pb2.SubscribeRequest, write: Write) -> None:
        names = list(request.accounts)
        rate = request.accounts[names[0]].filters[0].lamports.eq
        began, sent = time.monotonic(), 0
        while True:
            self._version += 1
            _ACCOUNT.write_version, signature = self._version, self._version.to_bytes(64, "big")
            _ACCOUNT.txn_signature = signature
            account = geyser_pb2.SubscribeUpdateAccount(account=_ACCOUNT, slot=_slot())
            update = geyser_pb2.SubscribeUpdate(filters=names, account=account)
            update.created_at.FromNanoseconds(time.time_ns())
            await write(update)
            sent += 1
            if rate:
                await asyncio.sleep(max(0.0, began + sent / rate - time.monotonic()))

    async def ping(self, request: geyser_pb2.PingRequest, context: Any) -> geyser_pb2.PongResponse:
        del context
        return geyser_pb2.PongResponse(count=request.count)


def _slot() -> int:
    return int(time.time() / _SLOT_SECONDS)


async def serve(port: int) -> None:
    """Serve until cancelled."""
    source = Source()
    handlers: dict[str, Any] = {
        api.SUBSCRIBE.name: grpc.stream_stream_rpc_method_handler(
            source.subscribe,
            request_deserializer=geyser_pb2.SubscribeRequest.FromString,
            response_serializer=geyser_pb2.SubscribeUpdate.SerializeToString,
        ),
        api.PING.name: grpc.unary_unary_rpc_method_handler(
            source.ping,
            request_deserializer=geyser_pb2.PingRequest.FromString,
            response_serializer=geyser_pb2.PongResponse.SerializeToString,
        ),
    }
    server = await started(port, handlers, [("grpc.so_reuseport", 0)])
    await server.wait_for_termination()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    asyncio.run(serve(parser.parse_args().port))
