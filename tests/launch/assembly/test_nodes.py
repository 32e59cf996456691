"""Guards that an actor's nodes follow an operator's changes, with the settings that every such actor has."""

import asyncio

import pytest
from pydantic import SecretStr

from actors.actor_settings import part_of
from actors.config import Config, StorageConfig, UpstreamConfig
from actors.deposits.usdc import host as deposits
from actors.launch.assembly.nodes import open_followed
from actors.memos import host as memos
from actors.sends import host as sends
from actors.signals import host as signals
from actors.streams.hub import host as hub
from actors.upstream import following
from actors.upstream.node_commands import ChangeNode, ListNodes, NodeList
from actors.webhooks import host as webhooks
from tests.databases import as_role
from tests.upstream.changing import Chain
from tests.upstream.nodes import running

_USES = [module.USES for module in (deposits, memos, sends, signals, hub, webhooks)]


@pytest.mark.parametrize("uses", _USES, ids=["watcher", "memos", "racer", "classifier", "hub", "dispatcher"])
async def test_every_actor_with_nodes_takes_a_change_over(
    uses: tuple[str, ...], postgres_url: str, owner_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rule: a node that is drained is drained for all, also for an actor that starts afterwards."""
    await as_role(owner_url, "TRUNCATE node_changes, node_versions, node_reports")
    monkeypatch.setattr(following, "LOOK_SECONDS", 0.01)
    one, two = Chain(), Chain()
    async with running(one), running(two):
        storage = StorageConfig(postgres_url=SecretStr(postgres_url), cluster_secret=SecretStr("s" * 32))
        upstream = UpstreamConfig(nodes=[{"url": one.url}, {"url": two.url}])
        config = part_of(Config(storage=storage, upstream=upstream), uses)
        nodes, own = await open_followed(config, ("a limit",))
        try:
            assert isinstance(await own.operator.ask(ChangeNode(id="node-2", drained=True)), NodeList)
            again, second = await open_followed(config)
            await second.close()
            assert [node.name for node in again.in_use] == ["node-1"]
            await again.close()
            async with asyncio.timeout(10):
                while len(nodes.in_use) > 1:  # noqa: ASYNC110 - a change tells nobody.
                    await asyncio.sleep(0.005)
            listed = await own.operator.ask(ListNodes())
            assert isinstance(listed, NodeList) and listed.processes[0].limits == ("a limit",)
        finally:
            await own.close()
            await nodes.close()
