"""Guards that an actor's nodes follow an operator's changes, with the settings that every such actor has."""

import asyncio

import pytest
from pydantic import SecretStr

from actors import small_actors
from actors.actor_settings import part_of
from actors.config import Config, StorageConfig, UpstreamConfig
from actors.deposits.usdc import host as deposits
from actors.launch.assembly import nodes as assembly
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


async def test_small_actors_of_one_process_have_the_nodes_together(
    postgres_url: str, owner_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rule: what is the same for all is probed and read once. Limits of one of them are told all the same."""
    await as_role(owner_url, "TRUNCATE node_changes, node_versions, node_reports")
    monkeypatch.setattr(small_actors, "here", object())
    monkeypatch.setattr(assembly, "_of_this_process", {})
    monkeypatch.setattr(following, "LOOK_SECONDS", 0.01)
    one = Chain()
    async with running(one):
        storage = StorageConfig(postgres_url=SecretStr(postgres_url), cluster_secret=SecretStr("s" * 32))
        config = Config(storage=storage, upstream=UpstreamConfig(nodes=[{"url": one.url}]))
        parts = [part_of(config, uses) for uses in _USES]
        opened = await asyncio.gather(*(open_followed(part) for part in parts[1:]))
        (nodes, own), again = opened[0], await open_followed(parts[0], ("a limit",))
        try:
            assert {id(each) for each, _ in (*opened, again)} == {id(nodes)}
            async with asyncio.timeout(10):
                while True:
                    listed = await own.operator.ask(ListNodes())
                    assert isinstance(listed, NodeList) and len(listed.processes) <= 1
                    if listed.processes and listed.processes[0].limits == ("a limit",):
                        break
        finally:
            await own.close()
            await nodes.close()
