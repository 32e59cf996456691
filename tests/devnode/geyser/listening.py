"""A subscriber without gRPC: it subscribes at the hub and decodes its updates."""

from typing import Any

from actors.geyser_proto import geyser_pb2
from devnode.geyser.filters import read_filter
from devnode.geyser.hub import GrpcHub
from devnode.geyser.outbox import Ended, Outbox
from devnode.geyser.refusals import End
from devnode.geyser.settings import NO_LIMITS, FilterLimits
from tests.devnode.local_node import LocalNode

Request = geyser_pb2.SubscribeRequest
Update = geyser_pb2.SubscribeUpdate


class Listener:
    def __init__(self, hub: GrpcHub, limits: FilterLimits = NO_LIMITS, outbox: Outbox | None = None) -> None:
        self.hub, self.limits = hub, limits
        self.subscription = hub.join(Outbox() if outbox is None else outbox)

    def ask(self, request: Request) -> None:
        from_slot = request.from_slot if request.HasField("from_slot") else None
        self.hub.subscribe(self.subscription, read_filter(request, self.limits), from_slot)

    async def updates(self) -> list[Update]:
        self.hub.pump()
        outbox = self.subscription.outbox
        return [Update.FromString(await outbox.next()) for _ in range(len(outbox))]

    async def end(self) -> End:
        """How the stream ended; drops all queued updates."""
        await self.updates()
        try:
            await self.subscription.outbox.next()
        except Ended as ended:
            return ended.end
        raise AssertionError("the stream did not end")


class Streaming:
    """A chain inside the test process, and a hub that listens to it."""

    def __init__(self, local: LocalNode, **settings: Any) -> None:
        self.local = local
        self.hub = GrpcHub(local.node, **settings)

    def listen(self, request: Request | None = None, **outbox: Any) -> Listener:
        listener = Listener(self.hub, outbox=Outbox(**outbox))
        if request is not None:
            listener.ask(request)
        return listener


def kinds(updates: list[Update]) -> list[str]:
    return [str(update.WhichOneof("update_oneof")) for update in updates]
