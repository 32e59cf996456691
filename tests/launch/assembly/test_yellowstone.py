"""A replica's gRPC door is open exactly where an endpoint is configured."""

from types import SimpleNamespace
from typing import Any

from actors.clock import SystemClock
from actors.config import Config, UpstreamConfig
from actors.gateway.doors import grpc as door_grpc
from actors.launch.assembly.streaming import Streaming
from actors.launch.assembly.yellowstone import assemble_yellowstone
from actors.metering.meters import Meters
from actors.telemetry.metrics import Metrics
from tests.gateway.doubles import REPLICA, OneAccount


def parts(config: Config) -> tuple[Any, ...]:
    account, clock = OneAccount(10), SystemClock()
    meters = Meters(account, clock, REPLICA)  # type: ignore[arg-type]
    return config, account, Streaming(None, None, ()), meters, clock, Metrics()


async def test_without_an_endpoint_there_is_no_door() -> None:
    """With a real node that has no Yellowstone endpoint, /capabilities says false, and nothing listens."""
    assert assemble_yellowstone(*parts(Config())) is None
    assert door_grpc._door is None and door_grpc._refusal == door_grpc.NOT_OFFERED


async def test_the_door_is_open_until_the_parts_close() -> None:
    config = Config(upstream=UpstreamConfig(yellowstone_url="http://127.0.0.1:1"))
    opened = assemble_yellowstone(*parts(config))
    assert opened is not None and opened.is_up
    door: Any = SimpleNamespace(authenticator=None, deposit_instructions="")
    opened.open(door)
    assert door_grpc._door is not None
    await opened.close()
    assert door_grpc._door is None
