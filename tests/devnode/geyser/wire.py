"""A client of the stream over a real connection, with grpc's own library."""

import asyncio
from typing import Any

import grpc
from google.protobuf.message import Message

from actors.geyser_proto import api, geyser_pb2

WAIT_SECONDS = 60.0


class Stream:
    """One Subscribe call. Every wait has a limit, after which the test fails."""

    def __init__(self, channel: grpc.aio.Channel, metadata: Any = None) -> None:
        rpc = api.SUBSCRIBE
        subscribe = channel.stream_stream(
            rpc.path,
            request_serializer=geyser_pb2.SubscribeRequest.SerializeToString,
            response_deserializer=geyser_pb2.SubscribeUpdate.FromString,
        )
        self.call = subscribe(metadata=metadata)

    async def ask(self, request: geyser_pb2.SubscribeRequest) -> None:
        await asyncio.wait_for(self.call.write(request), WAIT_SECONDS)

    async def next(self) -> geyser_pb2.SubscribeUpdate:
        update = await asyncio.wait_for(self.call.read(), WAIT_SECONDS)
        assert update is not grpc.aio.EOF, "the stream ended"
        return update  # type: ignore[no-any-return]

    async def next_but_ping(self) -> geyser_pb2.SubscribeUpdate:
        while (update := await self.next()).HasField("ping"):
            pass
        return update

    async def end(self) -> tuple[grpc.StatusCode, str]:
        async def drain() -> None:
            while await self.call.read() is not grpc.aio.EOF:
                pass

        try:
            await asyncio.wait_for(drain(), WAIT_SECONDS)
        except grpc.aio.AioRpcError:
            pass
        return await self.call.code(), await self.call.details()


async def call(channel: grpc.aio.Channel, rpc: api.Rpc, request: Message, metadata: Any = None) -> Any:
    ask = channel.unary_unary(
        rpc.path, request_serializer=rpc.request.SerializeToString, response_deserializer=rpc.response.FromString
    )
    return await ask(request, timeout=WAIT_SECONDS, metadata=metadata)
