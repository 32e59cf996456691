"""Three embedded chains behind one door: one killed, one lagging 200 slots, one hanging, all at once and under load."""

import asyncio
import contextlib
import sys
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from actors.clock import SystemClock
from actors.config import Config, UpstreamConfig
from actors.provider_config import NodeConfig
from actors.status.live import CurrentHealth, LivePages, LiveParts, OfferedParts
from actors.upstream.api import Nodes
from bench.systems import free_port

from .world import Wallet, World, a_world, call

RATE = 60  # Calls a second.
SLOT_MS = 100
LAG_SLOTS = 200
TRUTH_SECONDS = 5.0
CLASS_TIMEOUT_SECONDS = 5.0
NAMES = ("killed", "lagging", "hanging")


class Devnode:
    """One embedded chain in a process of its own, on a port that it keeps."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = free_port()
        self.url = f"http://127.0.0.1:{self._port}"
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Until it answers."""
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "devnode", "--http-port", str(self._port), "--slot-ms", str(SLOT_MS)),
            *("--data-dir", str(self._folder), "--seed", "1", "--grpc-port", "0", "--ws-port", str(free_port())),
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        async with asyncio.timeout(60):
            while await self.slot() < 0:  # noqa: ASYNC110  # Another process, which is asked.
                await asyncio.sleep(0.1)

    async def catch_up(self, slot: int) -> None:
        """As a node with a cluster does: these three have none."""
        async with asyncio.timeout(60), httpx.AsyncClient() as http:
            while (behind := slot - await self.slot()) > 0:
                await http.post(f"{self.url}/admin/faults/once", json={"skip_slots": min(behind, 64)})
                await asyncio.sleep(2 * SLOT_MS / 1000)
            while await self.slot("finalized") < slot:  # noqa: ASYNC110
                await asyncio.sleep(SLOT_MS / 1000)

    async def slot(self, commitment: str = "processed") -> int:
        assert self._process is not None
        assert self._process.returncode is None, "the chain did not start"
        async with httpx.AsyncClient() as http:
            try:
                body = {"jsonrpc": "2.0", "id": 1, "method": "getSlot", "params": [{"commitment": commitment}]}
                return int((await http.post(self.url, json=body)).json()["result"])
            except httpx.HTTPError:
                return -1

    async def faults(self, **plan: Any) -> None:
        async with httpx.AsyncClient() as http:
            answer = await http.post(f"{self.url}/admin/faults", json=plan)
            assert answer.status_code == 200, answer.text

    async def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        await self._process.wait()

    async def stop(self) -> None:
        if self._process is not None and self._process.returncode is None:
            await self.kill()


class Stores:
    """Everything but the nodes is well."""

    clocks_disagree, owners_away = False, ()

    async def committing(self) -> bool:
        return True

    async def ping(self) -> bool:
        return True


class Load:
    """Calls at a steady rate until told to stop; each call of its own task, late ones included."""

    def __init__(self, world: World, customer: Wallet) -> None:
        self._world, self._customer = world, customer
        self.seconds: list[float] = []
        self.statuses: Counter[object] = Counter()
        self.nodes: Counter[str] = Counter()
        self._calls: set[asyncio.Task[None]] = set()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def has_met_all(self) -> None:
        """Until each node has answered."""
        async with asyncio.timeout(60):
            while set(self.nodes) != set(NAMES):  # noqa: ASYNC110
                await asyncio.sleep(0.05)

    async def stop(self) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, *self._calls, return_exceptions=True)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        next_at = loop.time()
        for number in range(1 << 30):
            task = asyncio.create_task(self._call(number))
            self._calls.add(task)
            task.add_done_callback(self._calls.discard)
            next_at += 1 / RATE
            await asyncio.sleep(max(0.0, next_at - loop.time()))

    async def _call(self, number: int) -> None:
        # Different questions, so that sharing does not do the pool's work.
        body = (
            call("getBlocks", number % 50, number % 50 + 1)
            if number % 2
            else call("getMinimumBalanceForRentExemption", number)
        )
        loop = asyncio.get_running_loop()
        began = loop.time()
        answered = await self._world.rpc(self._customer, body)
        self.seconds.append(loop.time() - began)
        self.statuses["ok" if "result" in answered.json() else answered.text] += 1
        self.nodes[answered.headers.get("x-node", "")] += 1


@contextlib.asynccontextmanager
async def three_nodes(folder: Path) -> AsyncIterator[tuple[dict[str, Devnode], Nodes, LivePages]]:
    devnodes = {name: Devnode(folder / name) for name in NAMES}
    try:
        await asyncio.gather(*(devnode.start() for devnode in devnodes.values()))
        await asyncio.gather(*(devnode.catch_up(LAG_SLOTS + 100) for devnode in devnodes.values()))
        configs = tuple(NodeConfig(name=name, url=devnode.url) for name, devnode in devnodes.items())
        config = Config(upstream=UpstreamConfig(nodes=configs))
        stores: Any = Stores()
        current = CurrentHealth(config.upstream)
        pages = LivePages(config, SystemClock(), current, LiveParts(owners=stores, redis=stores), OfferedParts())
        nodes = Nodes(config.upstream, SystemClock(), current.probed)
        await nodes.probe()
        await pages.look()
        nodes.start()
        try:
            yield devnodes, nodes, pages
        finally:
            await nodes.close()
    finally:
        for devnode in devnodes.values():
            await devnode.stop()


async def seconds_until(pages: LivePages, **wanted: object) -> float:
    """How long until /health says all of this."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    async with asyncio.timeout(60):
        while not wanted.items() <= pages.health()[1].items():  # noqa: ASYNC110  # As its readers do, by asking.
            await asyncio.sleep(0.05)
    return loop.time() - began


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


async def test_one_killed_one_lagging_one_hanging_and_no_client_notices(folder: Path) -> None:
    """No client sees an error that was not its own, none waits for the time of its class, each answer is charged once,
    and /health tells the truth within 5 s, both ways."""
    limits = {"requests_per_second": 1_000_000, "concurrency": 100_000}
    async with contextlib.AsyncExitStack() as stack:
        devnodes, nodes, pages = await stack.enter_async_context(three_nodes(folder))
        world = await stack.enter_async_context(a_world(nodes, accounts=limits))
        customer = await world.customer(1_000_000)
        load = Load(world, customer)
        stack.push_async_callback(load.stop)
        load.start()
        await load.has_met_all()
        assert pages.health()[1]["status"] == "ok"

        await devnodes["lagging"].faults(node={"lag_slots": LAG_SLOTS})
        await devnodes["hanging"].faults(calls={"*": {"hang_share": 1.0}})
        await devnodes["killed"].kill()
        degraded = {"status": "degraded", "agave_healthy": False, "fallback_active": True, "paid_traffic_ready": True}
        assert await seconds_until(pages, **degraded) < TRUTH_SECONDS
        await asyncio.sleep(4)
        assert pages.health()[1].items() >= degraded.items()

        await devnodes["lagging"].faults(node={"lag_slots": 0})
        await devnodes["hanging"].faults(calls={"*": None})
        await devnodes["killed"].start()
        await devnodes["killed"].catch_up(await devnodes["lagging"].slot())
        assert await seconds_until(pages, status="ok", agave_healthy=True) < TRUTH_SECONDS
        load.nodes.clear()
        await load.has_met_all()
        await load.stop()

        assert load.statuses == {"ok": load.statuses.total()}
        ordered = sorted(load.seconds)
        assert ordered[len(ordered) * 99 // 100] < CLASS_TIMEOUT_SECONDS
        charged = 1_000_000 - await world.balance(customer)
        heavy = load.statuses.total() // 2
        assert charged == heavy * 25 + (load.statuses.total() - heavy)
        print(f"{len(ordered)} calls, p99 {ordered[len(ordered) * 99 // 100] * 1000:.0f} ms, most {ordered[-1]:.2f} s")
