"""The nodes of a replica, whole, against raw nodes on the loopback."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import orjson

from actors.clock import ManualClock
from actors.config import UpstreamConfig
from actors.provider_config import NodeConfig
from actors.upstream import replies
from actors.upstream.api import Nodes
from actors.upstream.node_health import Probe

from .nodes import Exchange, RawNode, running


class Chain(RawNode):
    """Answers as a node at this slot does."""

    def __init__(self, slot: int) -> None:
        super().__init__(self.answer_call)
        self.slot = slot

    async def answer_call(self, exchange: Exchange) -> None:
        method = orjson.loads(exchange.body)["method"]
        result = {"getHealth": "ok", "getVersion": {"solana-core": "4.0.1"}}.get(method, self.slot)
        await exchange.send(exchange.response(orjson.dumps({"jsonrpc": "2.0", "result": result, "id": 1})))

    @property
    def methods(self) -> list[str]:
        return [orjson.loads(exchange.body)["method"] for exchange in self.exchanges]


@contextlib.asynccontextmanager
async def nodes_over(*chains: Chain) -> AsyncIterator[tuple[Nodes, list[tuple[str, Probe, int | None]]]]:
    async with contextlib.AsyncExitStack() as stack:
        for chain in chains:
            await stack.enter_async_context(running(chain))
        configs = tuple(NodeConfig(name=f"n{number}", url=chain.url) for number, chain in enumerate(chains))
        heard: list[tuple[str, Probe, int | None]] = []
        nodes = Nodes(UpstreamConfig(nodes=configs), ManualClock(), lambda *probe: heard.append(probe))
        await nodes.probe()
        yield nodes, heard
        await nodes.close()


async def test_every_probe_is_heard_with_the_best_slot_of_all():
    """Health is judged by it: a lag is against the best that any node named."""
    async with nodes_over(Chain(1_000), Chain(700)) as (_, heard):
        assert {name: probe.slot for name, probe, _ in heard} == {"n0": 1_000, "n1": 700}
        assert heard[-1][2] == 1_000


async def test_an_answer_says_which_node_served_it_and_how_it_came_about():
    """By the configured name: the URL may carry a key."""
    async with nodes_over(Chain(1_000), Chain(700)) as (nodes, _):
        for _ in range(3):
            answer = await nodes.call("getSlot", b"[]", 5_000)
            assert (answer.node, answer.cache, answer.value()) == ("n0", "miss", b"1000")


async def test_singly_can_be_asked_by_itself():
    """Past the choice and past what is kept: two answers that must be of one node are of that one."""
    async with nodes_over(Chain(1_000), Chain(700)) as (nodes, _):
        for _ in range(2):
            answers = [await node.call("getFirstAvailableBlock", b"[]", 5_000) for node in nodes.single_nodes]
            assert [(answer.node, answer.value()) for answer in answers] == [("n0", b"1000"), ("n1", b"700")]


async def test_one_node_is_not_asked_more_than_its_probes_need():
    """What only a choice between nodes needs is not asked of the only one."""
    chain = Chain(1_000)
    async with nodes_over(chain):
        assert sorted(chain.methods) == ["getBlockHeight", "getHealth", "getSlot", "getVersion"]


async def test_probes_go_on_by_themselves_until_the_end():
    """Started, they look again and again; closed, nobody is left looking."""
    chain = Chain(1_000)
    async with running(chain):
        seen = asyncio.Event()
        count = iter(range(3, 0, -1))
        config = UpstreamConfig(node_url=chain.url).model_copy(update={"probe_seconds": 0.001})
        nodes = Nodes(config, ManualClock(), lambda *_: seen.set() if next(count, 0) == 1 else None)
        nodes.start()
        await seen.wait()
        await nodes.close()
    assert len([task for task in asyncio.all_tasks() if "Prober" in repr(task)]) == 0


async def test_closing_closes_every_client():
    """Nothing is left open behind a replica that stops."""
    async with nodes_over(Chain(1_000), Chain(700)) as (nodes, _):
        await nodes.close()
        answers = [await node.call("getSlot", b"[]", 5_000) for node in nodes.single_nodes]
        assert answers == [replies.UNREACHABLE] * 2
