"""The gRPC service `geyser.Geyser`.

Implements: Subscribe (each request replaces the one before, both sides may ping, the stream continues after the client
has closed its side), the unary calls, and the check of the token, if one is set. Subscribe writes bytes, so that
subscribers share encoded updates. SubscribeDeshred is refused, because there are no shreds here.
Not here: listening (server.py), updates (hub.py).
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NoReturn

import grpc
from google.protobuf.message import DecodeError

from actors.clock import Clock
from actors.geyser_proto import api, geyser_pb2
from devnode.geyser.calls import CallRefused, Calls
from devnode.geyser.filters import read_filter
from devnode.geyser.hub import GrpcHub
from devnode.geyser.messages import timestamp
from devnode.geyser.outbox import UPDATES_MAX, Ended, Outbox
from devnode.geyser.refusals import NO_SHREDS, NO_TOKEN, End, bad_filter, undecodable
from devnode.geyser.replays import GrpcSubscription
from devnode.geyser.settings import BadFilter, FilterLimits

PING_SECONDS = 10.0
TOKEN_METADATA = "x-token"  # noqa: S105 - the name of the header, not a token.
Context = grpc.aio.ServicerContext[Any, Any]
Requests = AsyncIterator[geyser_pb2.SubscribeRequest]


class Service:
    def __init__(
        self,
        hub: GrpcHub,
        calls: Calls,
        clock: Clock,
        limits: FilterLimits,
        token: str | None = None,
        queue_updates_max: int = UPDATES_MAX,
    ) -> None:
        self._hub, self._calls, self._clock, self._limits, self._token = hub, calls, clock, limits, token
        self._queue_updates_max = queue_updates_max

    def handler(self) -> grpc.GenericRpcHandler:
        """The handler for `server.add_generic_rpc_handlers`."""
        calls = self._calls
        unary: dict[api.Rpc, Callable[[Any], Any]] = {
            api.SUBSCRIBE_REPLAY_INFO: calls.subscribe_replay_info,
            api.PING: calls.ping,
            api.GET_LATEST_BLOCKHASH: calls.get_latest_blockhash,
            api.GET_BLOCK_HEIGHT: calls.get_block_height,
            api.GET_SLOT: calls.get_slot,
            api.IS_BLOCKHASH_VALID: calls.is_blockhash_valid,
            api.GET_VERSION: calls.get_version,
        }
        handlers: dict[str, Any] = {
            rpc.name: grpc.unary_unary_rpc_method_handler(
                self._answering(call),
                request_deserializer=rpc.request.FromString,
                response_serializer=rpc.response.SerializeToString,
            )
            for rpc, call in unary.items()
        }
        for rpc, stream in ((api.SUBSCRIBE, self.subscribe), (api.SUBSCRIBE_DESHRED, self.subscribe_deshred)):
            handlers[rpc.name] = grpc.stream_stream_rpc_method_handler(
                stream, request_deserializer=rpc.request.FromString, response_serializer=None
            )
        return grpc.method_handlers_generic_handler(api.SERVICE, handlers)

    def _answering(self, call: Callable[[Any], Any]) -> Callable[[Any, Context], Awaitable[Any]]:
        async def answer(request: Any, context: Context) -> Any:
            await self._authenticate(context)
            try:
                return call(request)
            except CallRefused as refused:
                await _abort(context, refused.end)

        return answer

    async def subscribe(self, requests: Requests, context: Context) -> None:
        await self._authenticate(context)
        # Send the headers at once: some clients wait for them before they write.
        await context.send_initial_metadata(())
        subscription = self._hub.join(Outbox(self._queue_updates_max))
        tasks = [
            asyncio.create_task(self._read(requests, subscription)),
            asyncio.create_task(self._ping(subscription.outbox)),
        ]
        for task in tasks:
            subscription.outbox.end_on_failure(task)
        try:
            while True:
                await context.write(await subscription.outbox.next())
        except Ended as ended:
            await _abort(context, ended.end)
        finally:
            self._hub.leave(subscription)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def subscribe_deshred(self, requests: Requests, context: Context) -> None:
        await self._authenticate(context)
        await _abort(context, NO_SHREDS)

    async def _authenticate(self, context: Context) -> None:
        if self._token is not None and dict(context.invocation_metadata() or ()).get(TOKEN_METADATA) != self._token:
            await _abort(context, NO_TOKEN)

    async def _read(self, requests: Requests, subscription: GrpcSubscription) -> None:
        """Read requests until the client closes its side; the stream continues after that."""
        try:
            async for request in requests:
                self._take(request, subscription)
        except DecodeError as error:
            subscription.outbox.end(undecodable(error))
        except grpc.aio.AbortError:
            return  # gRPC has ended the call: a request above the size limit, or a client that is gone.

    def _take(self, request: geyser_pb2.SubscribeRequest, subscription: GrpcSubscription) -> None:
        if request.HasField("ping"):  # As in Yellowstone, the other fields of this request are ignored.
            pong = geyser_pb2.SubscribeUpdate(pong=geyser_pb2.SubscribeUpdatePong(id=request.ping.id))
            self._put(subscription.outbox, pong)
            return
        try:
            wanted = read_filter(request, self._limits)
        except BadFilter as error:
            subscription.outbox.end(bad_filter(error))
            return
        from_slot = request.from_slot if request.HasField("from_slot") else None
        self._hub.subscribe(subscription, wanted, from_slot)

    async def _ping(self, outbox: Outbox) -> None:
        while not outbox.is_ended:
            self._put(outbox, geyser_pb2.SubscribeUpdate(ping=geyser_pb2.SubscribeUpdatePing()))
            await asyncio.sleep(PING_SECONDS)

    def _put(self, outbox: Outbox, update: geyser_pb2.SubscribeUpdate) -> None:
        if self._hub.delivers:
            update.created_at.CopyFrom(timestamp(self._clock.now_ms()))
            outbox.put(b"", update.SerializeToString())


async def _abort(context: Context, end: End) -> NoReturn:
    await context.abort(end.code, end.text)
    raise AssertionError("abort always raises")
