"""Measures Yellowstone streams through the whole product, beside the same streams direct and through a bare relay.

One client that takes as many updates as come, then 200 streams at once: equal ones, which share a subscription at the
node, and ones that all differ; with account updates of 250 bytes, and with transactions of 1,200. Source and relay are
in yellowstone_servers.py; client, source and product share the machine.
"""

import asyncio
import sys
import time
from dataclasses import asdict, dataclass, replace
from typing import Any

import grpc
import psutil
from solders.pubkey import Pubkey

from actors.geyser_proto import api, geyser_pb2
from actors.launch.local_run.cluster import GRPC_EXPERIMENTS
from bench import scenario
from bench.figures import in_ms
from bench.product import Product
from bench.systems import free_port, running, started
from bench.yellowstone_servers import rate_key

_WARM_SECONDS = 1.5
STREAMS = 200
RATE = 25  # Updates of each of the many streams in a second.
MAINNET_RATE = 5_000  # Transactions of mainnet in a second, votes included.
_STATUS_BYTES_MAX = 150  # Statuses of slots, pings and pongs are smaller, updates larger.


@dataclass(frozen=True)
class Step:
    """cpu_us, cpu_ns_a_byte: of the gateway's replica, for each update and byte that clients got; None: direct."""

    name: str
    streams: int
    updates_per_second: float
    mb_per_second: float
    p50_ms: float
    p99_ms: float
    cpu_us: float | None
    cpu_ns_a_byte: float | None


class Counter:
    """Counts updates as bytes, of which it decodes few: a client must not be the limit."""

    def __init__(self) -> None:
        self.count = self.bytes = 0
        self.delays: list[float] = []
        self.is_open = False

    def take(self, payload: bytes) -> None:
        if self.is_open and len(payload) > _STATUS_BYTES_MAX:
            self.count += 1
            self.bytes += len(payload)
            if self.count % 16 == 0:
                made = geyser_pb2.SubscribeUpdate.FromString(payload).created_at
                self.delays.append(time.time() - made.seconds - made.nanos / 1e9)


@dataclass(frozen=True)
class Wanted:
    """rate: updates a second of each stream; 0: as fast as possible. differ: every stream has a filter of its own."""

    streams: int = 1
    rate: int = 0
    differ: bool = False
    transactions: bool = False

    def request(self, number: int) -> geyser_pb2.SubscribeRequest:
        own = number if self.differ else 0
        request = geyser_pb2.SubscribeRequest()
        if self.transactions:
            own_key = str(Pubkey(own.to_bytes(8) + bytes(24)))
            request.transactions["some"].account_include.extend((rate_key(self.rate), own_key))
        else:
            wanted = request.accounts["small"]
            wanted.filters.add(lamports=geyser_pb2.SubscribeRequestFilterAccountsFilterLamports(eq=self.rate))
            wanted.filters.add(datasize=own)
        return request


async def measure(name: str, target: str, token: str, wanted: Wanted, seconds: float, pid: int | None) -> Step:
    """Measure one step. pid: of the gateway's replica; None: direct."""
    counter = Counter()
    options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", -1)]
    async with grpc.aio.insecure_channel(target, options=options) as channel:
        requests = (wanted.request(number) for number in range(wanted.streams))
        tasks = [asyncio.create_task(_read(channel, token, request, counter)) for request in requests]
        await asyncio.sleep(_WARM_SECONDS + wanted.streams / 100)
        replica = None if pid is None else psutil.Process(pid)
        cpu = 0.0 if replica is None else sum(replica.cpu_times()[:2])
        counter.is_open = True
        began = time.monotonic()
        await asyncio.sleep(seconds)
        counter.is_open = False
        took = time.monotonic() - began
        spent = None if replica is None else sum(replica.cpu_times()[:2]) - cpu
        failed = [task for task in tasks if task.done()]
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        if failed:
            raise RuntimeError(f"{name}: {len(failed)} streams ended: {results[0]!r}")
    if not counter.count:
        raise RuntimeError(f"{name}: no update came")
    delays = in_ms(counter.delays)
    return Step(
        name,
        wanted.streams,
        round(counter.count / took, 1),
        round(counter.bytes / took / 1e6, 2),
        delays["p50_ms"],
        delays["p99_ms"],
        None if spent is None else round(spent / counter.count * 1e6, 1),
        None if spent is None else round(spent / counter.bytes * 1e9, 1),
    )


async def _read(channel: grpc.aio.Channel, token: str, request: geyser_pb2.SubscribeRequest, counter: Counter) -> None:
    stub: Any = channel.stream_stream(api.SUBSCRIBE.path)
    call = stub(metadata=(("x-token", token),))
    await call.write(request.SerializeToString())
    while (update := await call.read()) is not grpc.aio.EOF:
        counter.take(update)
    raise RuntimeError("the stream ended")


async def steps(product: Product, source: str, relay: str, seconds: float) -> list[Step]:
    pid, key = int(product.ready["pids"]["gateway-1"]), product.api_key
    targets: dict[str, tuple[str, int | None]] = {
        "direct": (source, None),
        "bare relay": (relay, None),
        "gateway": (str(product.ready["grpc_target"]), pid),
    }
    each, many = tuple(targets), ("direct", "gateway")
    found = []
    for transactions, kind in ((False, "account"), (True, "transaction")):
        one, equal = Wanted(transactions=transactions), Wanted(STREAMS, RATE, transactions=transactions)
        for wanted, what, ways in (
            (one, "one stream", each),
            (replace(one, rate=MAINNET_RATE), f"one stream of {MAINNET_RATE:,}/s", each),
            (equal, f"{STREAMS} equal streams", many),
            (replace(equal, differ=True), f"{STREAMS} different streams", each),
        ):
            for way in ways:
                target, its_pid = targets[way]
                name = f"{way}, {kind}, {what}"
                found.append(await measure(name, target, key, wanted, seconds, its_pid))
    return found


def main(seconds: scenario.Seconds = 8.0) -> dict[str, Any]:
    """Measure Yellowstone streams; takes about five minutes."""
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
    for kind in ("account", "transaction"):
        for way in ("direct", "bare relay"):
            mine, other = (rates[f"{each}, {kind}, one stream"] for each in ("gateway", way))
            shares[f"gateway / {way}, {kind}, one stream"] = mine / other
    scenario.show_figures("shares", shares)
    return {"steps": found, **shares}
