"""The wiring of sockets to the hub."""

from typing import Any

from pydantic import SecretStr

from actors.calls import ProvenProof
from actors.config import Config, StorageConfig, UpstreamConfig
from actors.launch.assembly.streaming import assemble_streams, offers_streams
from actors.metering.standing_watch import StandingWatch
from actors.telemetry.metrics import Metrics
from tests.streams.websocket.test_client_streams import _Echoes
from tests.streams.world import ONE

URL = "http://127.0.0.1:1"


async def test_sockets_offer_native_subscriptions_and_those_of_other_contexts() -> None:
    """Subscriptions that other contexts bring are served beside the node's own."""
    config = Config(
        storage=StorageConfig(cluster_secret=SecretStr("s" * 32)),
        upstream=UpstreamConfig(node_url=URL, node_ws_url="ws://127.0.0.1:2"),
    )
    unused: Any = None
    placed: list[Any] = []
    metrics = Metrics()
    watch = StandingWatch(unused)
    streaming = await assemble_streams(
        config, unused, watch, ONE, metrics, [_Echoes()], place=lambda *arguments: placed.append(arguments)
    )
    sockets = streaming.sockets
    assert sockets is not None and len(placed) == 1
    socket: Any = None
    streams = sockets.open(socket, ProvenProof(b"p" * 32), unused, "127.0.0.1")
    samples = {sample.name: sample.value for family in metrics.families() for sample in family.samples}
    assert samples["ledger_gateway_websockets_open"] == 1
    assert all(map(streams.serves, ("subscribeSignal", "signalUnsubscribe", "voteSubscribe", "voteUnsubscribe")))
    for close in streaming.closers:
        await close()


async def test_without_a_websocket_of_a_node_none_is_offered() -> None:
    """A subscription that nobody can serve must not be sold."""
    config = Config(upstream=UpstreamConfig(node_url=URL))
    nobody: Any = None
    assert not offers_streams(config)
    streaming = await assemble_streams(config, nobody, nobody, ONE, Metrics())
    assert streaming.sockets is None
    for close in streaming.closers:
        await close()
