"""The hub as an actor: an ordinary class here, as Ray runs it."""

import logging
from typing import Any

import pytest
from prometheus_client import generate_latest
from pydantic import SecretStr

from actors import hosting
from actors.actor_settings import part_of
from actors.config import Config, StorageConfig, UpstreamConfig
from actors.hotlink.replica import Link
from actors.provider_config import NodeConfig
from actors.streams.api import LINK_KINDS
from actors.streams.hub.actor import StreamUrl
from actors.streams.hub.feed import FeedSubscription, TopicFeed
from actors.streams.hub.host import USES, StreamHubActor, place_hub, stream_urls
from actors.streams.hub.native import TopicKey
from actors.telemetry import metrics_page
from tests.streams.fake_node import FakeNode
from tests.streams.world import ONE, Answers


def _config(*nodes: NodeConfig) -> Config:
    return Config(storage=StorageConfig(cluster_secret=SecretStr("s" * 32)), upstream=UpstreamConfig(nodes=nodes))


def _node(number: int, ws_port: int | None, weight: int = 1) -> NodeConfig:
    ws_url = None if ws_port is None else SecretStr(f"ws://127.0.0.1:{ws_port}")
    return NodeConfig(url=SecretStr(f"http://127.0.0.1:{number}"), ws_url=ws_url, weight=weight)


def test_every_node_with_a_websocket_is_used() -> None:
    """Nodes of weight 0 only serve when no other one is connected. URLs may hold keys, and are not shown."""
    urls = stream_urls(_config(_node(1, 11), _node(2, None), _node(3, 13, weight=0)).upstream.named_nodes)
    assert urls == [StreamUrl("node-1", "ws://127.0.0.1:11"), StreamUrl("node-3", "ws://127.0.0.1:13", is_spare=True)]
    assert "127" not in repr(urls)


async def test_replicas_reach_the_hub_at_the_address_that_it_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    """It starts with its first call, and proves the secret of the cluster."""
    fake = FakeNode()
    await fake.start()
    monkeypatch.setattr(hosting, "this_address", lambda: "127.0.0.1")
    monkeypatch.setattr(metrics_page, "tune_gc", lambda: None)
    monkeypatch.setattr("actors.telemetry.logs.set_up", lambda *_: None)

    class Followed(Answers):
        def follow(self, listener: Any) -> None:
            listener(_config(_node(1, fake.port)).upstream.named_nodes)

    async def answers(config: Config) -> Any:
        return Followed()

    async def no_report(*_: Any, **__: Any) -> None:
        logging.getLogger(__name__)

    monkeypatch.setattr("actors.telemetry.metrics_page.report_for_ever", no_report)
    actor = StreamHubActor(part_of(_config(_node(1, fake.port)), USES), "this version", "stream-hub-a", answers)
    assert await actor.fingerprint() == "this version"
    link = Link(b"s" * 32, LINK_KINDS, actor.address, ONE)
    link.start()
    feed = TopicFeed(link, ONE)
    feed.start()
    assert isinstance(await feed.subscribe(TopicKey("slotSubscribe", b"[]"), lambda _: None), FeedSubscription)
    assert await actor.health() == {"topics": 1, "up": ["node-1"]}
    page = generate_latest(actor._metrics.registry).decode()
    for line in ("stream_hub_replicas 1.0", "stream_hub_topics 1.0", "stream_hub_nodes_up 1.0"):
        assert f"ledger_gateway_{line}" in page
    await feed.stop()
    await link.stop()
    await actor._server.stop()
    await actor._hub.stop()
    await fake.stop()


def test_each_node_has_its_own_hub_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Placed by the replicas of that node, on no other one, after hubs of lost nodes were ended."""
    done: list[Any] = []

    def placed(
        actor_class: type, name: str, config: Config, uses: Any, *more: Any, on_node: str, may_share: bool
    ) -> str:
        assert may_share
        done.append((name, more[0], on_node))
        return name

    async def nothing(config: Config) -> Any:
        return None

    monkeypatch.setattr(hosting, "place_with_settings", placed)
    monkeypatch.setattr(hosting, "remove_of_lost_nodes", done.append)
    for node in ("a" * 56, "b" * 56):
        monkeypatch.setattr(hosting, "this_node", lambda node=node: node)
        assert place_hub(_config(), nothing) == f"stream-hub-{node[:12]}"
        assert done[-2:] == ["stream-hub-", (f"stream-hub-{node[:12]}", f"stream-hub-{node[:12]}", node)]
