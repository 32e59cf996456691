"""Nodes that see one chain with different lags, and the client that a replica has of them."""

import asyncio

import orjson

from actors.provider_config import NodeConfig
from actors.upstream import replies
from actors.upstream.account_view import AccountView, current_view, under
from actors.upstream.coalescing import CoalescedReads
from actors.upstream.hedging import Hedges
from actors.upstream.monotonic_reads import MonotonicReads
from actors.upstream.node_health import Probe
from actors.upstream.node_selection import NodeSelection
from actors.upstream.node_slots import NodeSlots
from actors.upstream.pool import NodePool
from actors.upstream.read_cache import ReadCache
from actors.upstream.replies import NodeAnswer

LONG_MS = 5_000
ADDRESS = "11111111111111111111111111111111"
BALANCE = orjson.dumps([ADDRESS, {"commitment": "confirmed"}])
BEHIND = -32016


class Chain:
    slot = 1_000


class LaggingNode:
    """A node that sees the chain some slots late. lies: its answer in place of the true one, by method."""

    def __init__(self, chain: Chain, lag: int = 0, heeds_minimum: bool = True) -> None:
        self.chain, self.lag, self.heeds_minimum = chain, lag, heeds_minimum
        self.calls: list[tuple[str, list]] = []
        self.lies: dict[str, object] = {}
        self.down = False

    @property
    def slot(self) -> int:
        return self.chain.slot - self.lag

    async def call(self, method: str, params: bytes, timeout_ms: int) -> NodeAnswer:
        arguments = orjson.loads(params)
        self.calls.append((method, arguments))
        slot = self.slot  # It reads its state before the answer travels.
        await asyncio.sleep(0)
        if self.down:
            return replies.UNREACHABLE
        if method in self.lies:
            return result(self.lies[method])
        config = arguments[-1] if arguments and type(arguments[-1]) is dict else {}
        if self.heeds_minimum and (config.get("minContextSlot") or 0) > slot:
            error = {"code": BEHIND, "message": "Minimum context slot has not been reached"}
            return replies.judge(orjson.dumps({"jsonrpc": "2.0", "error": error, "id": 1}))
        if method == "getSlot":
            return result(slot)
        if method in ("getBlockHeight", "getTransaction"):
            return result({"at": slot})
        if method == "getSignatureStatuses":
            status = {"slot": slot - 1, "confirmations": 1, "err": None, "confirmationStatus": "confirmed"}
            return result({"context": {"apiVersion": "3.0.0", "slot": slot}, "value": [status, None]})
        return result({"context": {"apiVersion": "3.0.0", "slot": slot}, "value": slot})

    def asked(self, method: str) -> int:
        return sum(name == method for name, _ in self.calls)

    async def close(self) -> None: ...


def result(value: object) -> NodeAnswer:
    return replies.judge(orjson.dumps({"jsonrpc": "2.0", "result": value, "id": 1}))


class Replica:
    """The nodes' client of one replica, in front of nodes that all replicas share."""

    def __init__(self, nodes: list[LaggingNode]) -> None:
        self.nodes = nodes
        configs = [NodeConfig(name=f"n{index}", url="http://x", roles=("read",)) for index in range(len(nodes))]
        self.selection = NodeSelection(configs, 128, 60_000)
        self.slots = NodeSlots(range(len(nodes)))
        self.probe()
        hedges, cache = Hedges(50, 10), ReadCache(1 << 20)
        self.any = CoalescedReads(NodePool(self.selection, nodes, hedges), cache)
        self.reads = MonotonicReads(
            nodes,  # type: ignore[arg-type]
            self.slots,
            lambda watched: NodePool(self.selection, watched, hedges),
            cache,
            self.any.call,
        )

    async def call(self, method: str, params: bytes, timeout_ms: int) -> NodeAnswer:
        """As upstream.api.Nodes has it."""
        return await (self.any if current_view() is None else self.reads).call(method, params, timeout_ms)

    def probe(self) -> None:
        for index, node in enumerate(self.nodes):
            slot = node.lies.get("getSlot", node.slot)
            assert type(slot) is int
            probe = Probe(not node.down, slot=slot, confirmed_slot=slot, processed_slot=slot)
            self.selection.probed(index, probe)
            self.slots.probed(index, probe)

    async def read(
        self, view: AccountView, method: str = "getBalance", params: bytes = BALANCE, timeout_ms: int = LONG_MS
    ) -> NodeAnswer:
        return await under(view, self.reads.call, method, params, timeout_ms)


def of(*lags: int) -> Replica:
    """A replica's client of nodes with these lags."""
    chain = Chain()
    return Replica([LaggingNode(chain, lag) for lag in lags])
