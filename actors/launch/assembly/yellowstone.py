"""Assembles what a replica needs for Yellowstone gRPC: the node's endpoint, the service over it, the door before it.

Wiring; every rule is in streams/ and gateway/.
"""

from actors.accounts.api import AccountsClient
from actors.clock import Clock
from actors.config import Config
from actors.gateway.doors import grpc as door_grpc
from actors.gateway.doors.grpc import GrpcDoor
from actors.gateway.doors.http import HttpDoor
from actors.launch.assembly.streaming import Streaming
from actors.metering.meters import Meters
from actors.metering.standing_watch import StandingWatch
from actors.streams.hub.host import keeps_window
from actors.streams.yellowstone.feeds import open_feeds
from actors.streams.yellowstone.replays import GeyserReplays
from actors.streams.yellowstone.service import GeyserService
from actors.telemetry.metrics import Metrics


class Yellowstone:
    """The open parts of one replica. close() ends all streams first."""

    def __init__(self, service: GeyserService, credentials: StandingWatch, metrics: Metrics) -> None:
        self._service, self._credentials, self._metrics = service, credentials, metrics

    @property
    def is_up(self) -> bool:
        """Whether the node's endpoint answers."""
        return self._service.is_up

    def open(self, door: HttpDoor) -> None:
        """Open the gRPC door of this process, for the callers that this door knows."""
        refused = lambda err: self._metrics.refusals.add((err.name,))  # noqa: E731 - one line, used once.
        door_grpc.open_grpc(GrpcDoor(self._service, door.authenticator, door.deposit_instructions, refused))

    @property
    def left(self) -> int:
        return self._service.left

    def stop_taking(self) -> None:
        self._service.stop_taking()

    def end_some(self, count: int) -> None:
        self._service.end_some(count)

    async def close(self) -> None:
        door_grpc.open_grpc(None)
        await self._service.close()
        await self._credentials.stop()


def assemble_yellowstone(
    config: Config,
    accounts: AccountsClient,
    streaming: Streaming,
    meters: Meters,
    clock: Clock,
    metrics: Metrics,
) -> Yellowstone | None:
    """Start what reads the node's endpoint. None: no endpoint is configured."""
    if config.upstream.yellowstone_url is None:
        door_grpc.open_grpc(None, door_grpc.NOT_OFFERED)  # A cluster may listen for gRPC all the same.
        return None
    link = streaming.link
    feeds = open_feeds(config, clock)
    feeds.start()
    replays = GeyserReplays(link.call) if link is not None and keeps_window(config) else None
    # A stream is paid by the minute, so it needs no balance; and it prolongs its session, as a call does.
    credentials = StandingWatch(accounts, balance_min=0, prolongs_sessions=True)
    credentials.start()
    service = GeyserService(feeds, meters, credentials, config.geyser, clock, replays=replays)
    metrics.watch("grpc_streams_open", "Open gRPC streams of clients.", lambda: service.streams_open)
    return Yellowstone(service, credentials, metrics)
