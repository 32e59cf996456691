"""Nodes that change, without a database: a store in memory, and raw nodes that know their network."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import orjson

from actors.clock import ManualClock
from actors.config import UpstreamConfig
from actors.provider_config import NodeConfig
from actors.upstream.api import Nodes
from actors.upstream.node_changes import Forget, NodeChange, WantedNode
from actors.upstream.node_reports import ProcessReport
from actors.upstream.store import KeptChanges, NodeChangesUnavailable

from .nodes import Exchange, RawNode, running

NETWORK = "5" * 43


class MemoryNodeChanges:
    """is_away: every method raises."""

    def __init__(self) -> None:
        self.kept, self.told, self.is_away = KeptChanges(), dict[str, ProcessReport](), False

    async def version(self) -> int:
        self._look()
        return self.kept.version

    async def read(self) -> KeptChanges:
        self._look()
        return self.kept

    async def change(self, decide: Callable[[KeptChanges], Any]) -> tuple[Any, int]:
        self._look()
        decided, kept = decide(self.kept), self.kept
        if not isinstance(decided, NodeChange | Forget):
            return decided, kept.version
        changes = [one for one in kept.changes if one.id != decided.id]
        changes += [decided] if isinstance(decided, NodeChange) else []
        self.kept = KeptChanges(kept.version + 1, kept.network, tuple(sorted(changes, key=lambda one: one.id)))
        return decided, self.kept.version

    async def keep_network(self, network: str) -> None:
        self._look()
        self.kept = KeptChanges(self.kept.version, network, self.kept.changes)

    async def tell(self, report: ProcessReport) -> None:
        self._look()
        self.told[report.process] = report

    async def reports(self, seconds: int) -> list[ProcessReport]:
        self._look()
        return [*self.told.values()]

    async def forget_silent(self) -> None:
        self._look()

    def _look(self) -> None:
        if self.is_away:
            raise NodeChangesUnavailable("away")


class Chain(RawNode):
    """Answers as a node of a network. held: calls of getSlot with parameters wait for it."""

    def __init__(self, network: str | None = NETWORK) -> None:
        super().__init__(self.answer_call)
        self.network, self.is_dead = network, False
        self.held = asyncio.Event()
        self.held.set()
        self.slot = 1_000

    async def answer_call(self, exchange: Exchange) -> None:
        method = orjson.loads(exchange.body)["method"]
        if self.is_dead:
            exchange.reset()
            return
        if method == "getBalance":
            await self.held.wait()
        results: dict[str, Any] = {"getHealth": "ok", "getVersion": {"solana-core": "4.0.1"}}
        results["getGenesisHash"] = self.network
        result = results.get(method, self.slot)
        await exchange.send(exchange.response(orjson.dumps({"jsonrpc": "2.0", "result": result, "id": 1})))

    @property
    def calls(self) -> int:
        """Clients' calls."""
        return sum(orjson.loads(exchange.body)["method"] == "getBalance" for exchange in self.exchanges)


def config_of(name: str, chain: Chain, **more: Any) -> NodeConfig:
    return NodeConfig(name=name, url=chain.url, **more)


def added(name: str, chain: Chain, **more: Any) -> WantedNode:
    return WantedNode(config=config_of(name, chain), is_of_settings=False, network=NETWORK, **more)


def of_settings(name: str, chain: Chain, weight: int = 1, **more: Any) -> WantedNode:
    return WantedNode(config=config_of(name, chain, weight=weight), **more)


@contextlib.asynccontextmanager
async def nodes_over(*chains: Chain, further: tuple[Chain, ...] = ()) -> AsyncIterator[tuple[Nodes, UpstreamConfig]]:
    """Nodes of the settings named n0, n1 and so on. further: chains that run, and are no nodes yet."""
    async with contextlib.AsyncExitStack() as stack:
        for chain in (*chains, *further):
            await stack.enter_async_context(running(chain))
        configs = tuple(config_of(f"n{number}", chain) for number, chain in enumerate(chains))
        config = UpstreamConfig(nodes=configs, cache_bytes_max=0).model_copy(update={"probe_seconds": 0.005})
        nodes = Nodes(config, ManualClock(), lambda *_: None)
        yield nodes, config
        await nodes.close()


async def until(holds: Callable[[], Any]) -> None:
    async with asyncio.timeout(10):
        while not holds():  # noqa: ASYNC110 - the condition tells nobody.
            await asyncio.sleep(0.002)


def stages(nodes: Nodes) -> dict[str, str]:
    return {one.id: one.stage.value for one in nodes.figures()}
