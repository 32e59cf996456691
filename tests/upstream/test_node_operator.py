"""Guards what an operator's commands do: who is asked before a node is added, and what each answer says."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from actors.upstream.following import NodesFollower
from actors.upstream.node_commands import (
    AddNode,
    ChangeNode,
    ListNodes,
    NodeCommand,
    NodeList,
    NodeRefused,
    Refused,
    RemoveNode,
)
from actors.upstream.node_operator import NodeOperator

from .changing import NETWORK, Chain, MemoryNodeChanges, nodes_over


class World:
    def __init__(self, operator: NodeOperator, store: MemoryNodeChanges, follower: NodesFollower) -> None:
        self.operator, self.store, self.follower = operator, store, follower

    async def done(self, command: NodeCommand) -> NodeList:
        found = await self.operator.ask(command)
        assert isinstance(found, NodeList), found
        await self.follower.look()
        return found

    async def refused(self, command: NodeCommand) -> Refused:
        before = self.store.kept
        found = await self.operator.ask(command)
        assert isinstance(found, NodeRefused), found
        assert self.store.kept == before  # Nothing has changed.
        return found.reason


@asynccontextmanager
async def a_world(*chains: Chain, further: tuple[Chain, ...] = ()) -> AsyncIterator[World]:
    store = MemoryNodeChanges()
    async with nodes_over(*chains, further=further) as (nodes, config):
        follower = NodesFollower(config.named_nodes, nodes, store, "gateway-1")
        await follower.begin()
        await nodes.probe()
        await follower.look()
        yield World(NodeOperator(config, nodes, store), store, follower)


async def test_a_node_is_added_weighted_drained_and_removed():
    old, new = Chain(), Chain()
    async with a_world(old, further=(new,)) as world:
        found = await world.done(AddNode(id="new", url=f"{new.url}SECRETKEY", weight=3))
        row = found.nodes[1]
        assert (row.id, row.url, row.origin, row.weight, row.settings_weight) == (
            *("new", f"{new.url}...", "operator", 3, None),
        )
        assert world.store.kept.changes[0].network == NETWORK
        listed = await world.done(ListNodes())
        assert (listed.nodes[1].state, listed.is_taken_over) == ("joining", True)
        assert (await world.done(ChangeNode(id="new", weight=5))).nodes[1].weight == 5
        assert (await world.done(ChangeNode(id="new", drained=True))).nodes[1].drained
        assert [row.id for row in (await world.done(RemoveNode(id="new"))).nodes] == ["n0"]
        assert "SECRETKEY" not in repr(found) + repr(listed)


async def test_a_node_of_another_network_is_refused():
    old, foreign = Chain(), Chain("6" * 43)
    async with a_world(old, further=(foreign,)) as world:
        for allowed in (False, True):
            command = AddNode(id="new", url=foreign.url, is_unreachable_allowed=allowed)
            assert await world.refused(command) is Refused.OTHER_NETWORK


@pytest.mark.parametrize("told", ["<b>" * 20_000, "a\x00\n\x1b[31m", "4" * 43])
async def test_a_text_that_is_no_genesis_hash_is_told_to_nobody(told: str):
    """It is a hostile node's, of any length, and would stand in an operator's page and terminal."""
    old, hostile = Chain(), Chain(told)
    async with a_world(old, further=(hostile,)) as world:
        found = await world.operator.ask(AddNode(id="new", url=hostile.url))
        assert isinstance(found, NodeRefused) and found.reason is Refused.UNREACHABLE
        assert told not in found.detail and len(found.detail) < 300


@pytest.mark.parametrize("url", ["http://h\\x", "http://h/\x00", "http://h/\nx", "http://h/\x7f", "http://h/ x"])
async def test_a_url_that_no_request_can_be_made_of_is_refused(url: str):
    """It is not kept, whatever is allowed, and not asked: some of these raise as they are asked."""
    async with a_world(Chain()) as world:
        assert await world.refused(AddNode(id="new", url=url, is_unreachable_allowed=True)) is Refused.INVALID


@pytest.mark.parametrize("more", [{"url": "http://127.0.0.1:1/KEY"}, {"ws_url": "ws://127.0.0.1:1/KEY"}])
async def test_a_node_that_is_away_is_added_only_when_that_is_allowed(more: dict[str, str], caplog: Any):
    caplog.set_level(logging.DEBUG)
    old, new = Chain(), Chain()
    async with a_world(old, further=(new,)) as world:
        urls = {"url": new.url, **more}
        assert await world.refused(AddNode(id="new", **urls)) is Refused.UNREACHABLE
        await world.done(AddNode(id="new", is_unreachable_allowed=True, **urls))
    assert "KEY" not in caplog.text


async def test_while_no_node_answers_the_network_of_before_counts():
    """The node that is added may be the one that helps."""
    old, new, foreign = Chain(), Chain(), Chain("6" * 43)
    async with a_world(old, further=(new, foreign)) as world:
        old.is_dead = True
        assert await world.refused(AddNode(id="foreign", url=foreign.url)) is Refused.OTHER_NETWORK
        await world.done(AddNode(id="new", url=new.url))


async def test_a_network_that_nobody_knows_is_not_guessed():
    old, new = Chain(None), Chain()
    async with a_world(old, further=(new,)) as world:
        assert await world.refused(AddNode(id="new", url=new.url)) is Refused.NETWORK_UNKNOWN


async def test_no_node_is_drained_while_no_other_one_answers():
    """Unless the operator says so."""
    one, two = Chain(), Chain()
    two.is_dead = True
    async with a_world(one, two) as world:
        for command in (ChangeNode(id="n0", drained=True), ChangeNode(id="n0", weight=0)):
            assert await world.refused(command) is Refused.UNREACHABLE
        await world.done(ChangeNode(id="n0", drained=True, is_unreachable_allowed=True))


async def test_of_two_drains_at_once_the_second_finds_the_last_node():
    """Both were right when they were asked: the store's lock decides."""
    one, two = Chain(), Chain()
    async with a_world(one, two) as world:
        drains = (world.operator.ask(ChangeNode(id=name, drained=True)) for name in ("n0", "n1"))
        found = await asyncio.gather(*drains)
        (refused,) = [each for each in found if isinstance(each, NodeRefused)]
        assert refused.reason is Refused.LAST_NODE


async def test_a_database_that_is_away_is_told():
    one = Chain()
    async with a_world(one) as world:
        world.store.is_away = True
        for command in (ListNodes(), ChangeNode(id="n0", weight=3)):
            assert await world.refused(command) is Refused.AWAY
        assert await world.refused(ChangeNode(id="n0")) is Refused.INVALID
