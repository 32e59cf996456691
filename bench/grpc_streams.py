"""Measures Yellowstone streams through the whole product, beside the same streams direct and through a bare relay.

One client that takes as many small updates as come, then 200 streams at once: equal ones, which share a subscription at
the node, and ones that all differ. Source and relay are in yellowstone_servers.py; client, source and product share the
machine.
"""

import asyncio
import sys
import time
from dataclasses import asdict, dataclass
from typing import Any

import grpc
import psutil

from actors.geyser_proto import api, geyser_pb2
from actors.launch.local_run.cluster import GRPC_EXPERIMENTS
from bench import scenario
from bench.figures import in_ms
from bench.product import Product
from bench.systems import free_port, running, started

_WARM_SECONDS = 1.5
STREAMS = 200
RATE = 25  # Updates of each of the many streams in a second.


@dataclass(frozen=True)
class Step:
    """cpu_us: of the gateway's replica for each update that clients got; None: direct."""

    name: str
    streams: int
    updates_per_second: float
    p50_ms: float
    p99_ms: float
    cpu_us: float | None


class Counter:
    def __init__(self) -> None:
        self.count = 0
        self.delays: list[float] = []
        self.is_open = False

    def take(self, update: geyser_pb2.SubscribeUpdate) -> None:
        if self.is_open and update.WhichOneof("update_oneof") == "account":
            self.count += 1
            if self.count % 16 == 0:
                made = update.created_at
                self.delays.append(time.time() - made.seconds - made.nanos / 1e9)


async def measure(
    name: str, target: str, token: str, streams: int, rate: int, seconds: float, differ: bool, pid: int | None
) -> Step:
    """Measure one step. differ: every stream has a filter of its own."""
    counter = Counter()
    options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", -1)]
    async with grpc.aio.insecure_channel(target, options=options) as channel:
        tasks = [
            asyncio.create_task(_read(channel, token, rate, number if differ else 0, counter))
            for number in range(streams)
        ]
        await asyncio.sleep(_WARM_SECONDS + streams / 100)
        replica = None if pid is None else psutil.Process(pid)
        cpu = 0.0 if replica is None else sum(replica.cpu_times()[:2])
        counter.is_open = True
        began = time.monotonic()
        await asyncio.sleep(seconds)
        counter.is_open = False
        took = time.monotonic() - began
        spent = 0.0 if replica is None else sum(replica.cpu_times()[:2]) - cpu
        failed = [task for task in tasks if task.done()]
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        if failed:
            raise RuntimeError(f"{name}: {len(failed)} streams ended: {results[0]!r}")
    delays = in_ms(counter.delays)
    cpu_us = None if replica is None or not counter.count else round(spent / counter.count * 1e6, 1)
    return Step(name, streams, round(counter.count / took, 1), delays["p50_ms"], delays["p99_ms"], cpu_us)


async def _read(channel: grpc.aio.Channel, token: str, rate: int, number: int, counter: Counter) -> None:
    stub: Any = channel.stream_stream(
        api.SUBSCRIBE.path,
        request_serializer=geyser_pb2.SubscribeRequest.SerializeToString,
        response_deserializer=geyser_pb2.SubscribeUpdate.FromString,
    )
    call = stub(metadata=(("x-token", token),))
    request = geyser_pb2.SubscribeRequest()
    wanted = request.accounts["small"]
    wanted.filters.add(lamports=geyser_pb2.SubscribeRequestFilterAccountsFilterLamports(eq=rate))
    wanted.filters.add(datasize=number)
    await call.write(request)
    while (update := await call.read()) is not grpc.aio.EOF:
        counter.take(update)
    raise RuntimeError("the stream ended")


async def steps(product: Product, source: str, relay: str, seconds: float) -> list[Step]:
    target, key = str(product.ready["grpc_target"]), product.api_key
    pid = int(product.ready["pids"]["gateway-1"])
    return [
        await measure("direct, one stream", source, key, 1, 0, seconds, False, None),
        await measure("bare relay, one stream", relay, key, 1, 0, seconds, False, None),
        await measure("gateway, one stream", target, key, 1, 0, seconds, False, pid),
        await measure("gateway, one stream at 5,000/s", target, key, 1, 5_000, seconds, False, pid),
        await measure("direct, 200 streams", source, key, STREAMS, RATE, seconds, False, None),
        await measure("gateway, 200 equal streams", target, key, STREAMS, RATE, seconds, False, pid),
        await measure("gateway, 200 different streams", target, key, STREAMS, RATE, seconds, True, pid),
    ]


def main(seconds: scenario.Seconds = 8.0) -> dict[str, Any]:
    """Measure Yellowstone streams; takes about two minutes."""
    port, relay_port = free_port(), free_port()
    settings = {
        "LEDGER_UPSTREAM__YELLOWSTONE_URL": f"http://127.0.0.1:{port}",
        "LEDGER_GEYSER__STREAMS_PER_ACCOUNT": "1000",
        "LEDGER_ACCOUNTS__REQUESTS_PER_SECOND": "10000",
        "LEDGER_ACCOUNTS__CONCURRENCY": "1000",
        "LEDGER_GATEWAY__REPLICAS": "1",
    }
    server, source = [sys.executable, "-m", "bench.yellowstone_servers"], f"127.0.0.1:{port}"
    relay = [*server, "relay", "--port", str(relay_port), "--source", source]
    with (
        running([*server, "updates", "--port", str(port)], {}, port),
        # The relay reads sockets as a replica does.
        running(relay, {"GRPC_EXPERIMENTS": GRPC_EXPERIMENTS}, relay_port),
        started(settings) as product,
    ):
        found = asyncio.run(steps(product, source, f"127.0.0.1:{relay_port}", seconds))
    scenario.show("Yellowstone streams", tuple(asdict(found[0])), (tuple(asdict(step).values()) for step in found))
    rates = {step.name: step.updates_per_second for step in found}
    shares = {}
    for name in ("direct", "bare relay"):
        shares[f"gateway / {name}, one stream"] = rates["gateway, one stream"] / rates[f"{name}, one stream"]
    scenario.show_figures("shares", shares)
    return {"steps": found, **shares}
