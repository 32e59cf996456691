"""Clients of several machines over gRPC: unary calls, and streams that go on from the newest final slot."""

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any

import grpc

from actors.geyser_proto import api, geyser_pb2
from tests.cluster.machine_clients import Calling
from tests.stream_checks.waiting import until_all
from tests.stream_checks.yellowstone_followers import ChainAtNode, ToldFollower, differences, open_channel

_TOLD = ("UNAVAILABLE: the service restarts", "UNAVAILABLE: server is shutting down")  # Neither costs anything more.
_AGAIN = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED, grpc.StatusCode.DEADLINE_EXCEEDED)


class GrpcCallers(Calling):
    """Asks GetSlot by unary calls, over one connection for each machine."""

    def __init__(self, targets: Sequence[str], api_key: str, calls_per_second: float) -> None:
        super().__init__(len(targets), calls_per_second)
        self._targets, self._metadata = list(targets), (("x-token", api_key),)
        self._stubs: list[Any] = []

    async def _open(self, stack: contextlib.AsyncExitStack) -> None:
        for target in self._targets:
            channel = open_channel(target, pings=True)
            stack.push_async_callback(channel.close)
            self._stubs.append(
                channel.unary_unary(
                    api.GET_SLOT.path,
                    request_serializer=geyser_pb2.GetSlotRequest.SerializeToString,
                    response_deserializer=geyser_pb2.GetSlotResponse.FromString,
                )
            )

    async def _ask(self, machine: int, number: int) -> str | None:
        try:
            await self._stubs[machine](
                geyser_pb2.GetSlotRequest(), metadata=self._metadata, timeout=self.answer_seconds
            )
        except grpc.aio.AioRpcError as error:
            self.record.unknown += 1
            return f"{'' if error.code() in _AGAIN else 'final '}{error.code().name}"
        self.record.answered += 1
        return None


class Followers:
    """So many streams of one account, which follow the chain until `stop`."""

    def __init__(self, targets: Sequence[str], api_key: str, number: int) -> None:
        self._targets, self._key, self._number = list(targets), api_key, number
        self.followers: list[ToldFollower] = []
        self.missing = self.extra = 0  # Updates that a stream has not brought, or that the chain does not have.
        self._first = 0
        self._running: list[asyncio.Task[None]] = []
        self._channels: list[grpc.aio.Channel] = []

    async def start(self) -> None:
        self._channels = [open_channel(self._addresses(number), pings=True) for number in range(self._number)]
        self.followers = [ToldFollower(channel, self._key) for channel in self._channels]
        self._running = [asyncio.create_task(one.run()) for one in self.followers]
        await self._until(lambda one: one.final is not None, "not all streams brought a final slot")
        self._first = max((one.newest for one in self.followers), default=0) + 2

    def _addresses(self, number: int) -> str:
        """Return all machines, another one first for each stream; it goes to the next one where the first is gone."""
        first = number % len(self._targets)
        return f"ipv4:{','.join([*self._targets[first:], *self._targets[:first]])}"

    async def _until(self, holds: Any, failure: str) -> None:
        def check() -> None:
            for one in self.followers:
                if one.ended is not None:
                    raise one.ended

        await until_all(self.followers, holds, failure, check)

    async def stop(self, chain: ChainAtNode) -> None:
        """Wait until each stream knows the chain up to now, compare them with it, and end them. Raises Stalled."""
        if not self.followers:
            return
        try:
            last = await chain.slot()
            await self._until(lambda one: (one.final or 0) >= last, "not all streams go on")
            wanted = await chain.updates(self._first, last)
            found = [differences(one, wanted, self._first, last) for one in self.followers]
            self.missing, self.extra = (sum(each) for each in zip(*found, strict=True))
        finally:
            for task in self._running:
                task.cancel()
            await asyncio.gather(*self._running, return_exceptions=True)
            for channel in self._channels:
                await channel.close()

    @property
    def ends(self) -> list[str]:
        return [end for one in self.followers for end in one.ends]

    @property
    def repeated(self) -> int:
        """Return how many updates came twice on one stream, or from before the slot that its replica had named."""
        return sum(one.repeated + one.from_before for one in self.followers)

    def charges(self) -> range:
        """Return what their beginnings may have cost: a credit for each stream that brought an update; one that was
        lost before its first update, and was not told where to go on, may have been charged."""
        told = sum(one.told + one.told_here for one in self.followers)
        if all(end.startswith(_TOLD) for end in self.ends):
            return range(told, told + 1)
        return range(told, sum(one.begun for one in self.followers) + 1)
