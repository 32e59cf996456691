"""Measures the delay from a node's update to the frame that a subscriber's socket reads.

The whole product runs: classifier, Redis, replicas, HAProxy. A node in its own process (yellowstone_servers.py) sends
transactions at a steady rate, of which few are signals. Subscribers are real WebSockets of many accounts, in this
process. One of the machine's clocks times everything: an update carries the time at which the node made it.

In the same run one client reads the same updates from the node's stream directly. The ratio of the two tells how much
of a delay is the product's. Every subscriber must have each signal of the direct stream once.
"""

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any
from urllib.parse import urlsplit

import grpc
import orjson
import typer
import uvloop

from actors.geyser_proto import api
from actors.geyser_proto.geyser_pb2 import SubscribeRequest
from actors.launch_programs.events import TradeEvent
from bench import scenario
from bench.figures import in_ms
from bench.processes import cpu_seconds, cpu_spent
from bench.product import Product
from bench.streams import Goal, Reader
from bench.systems import free_port, running, started
from bench.yellowstone_servers import LARGE_ONLY, THRESHOLD
from tests.customers import Customer
from tests.product import StaffedProduct

TARGET_P50_MS, TARGET_P99_MS = 20.0, 100.0
_WARM_SECONDS = 5.0  # Time without a backlog before the measurement begins.
_FRESH_SECONDS = 0.25  # A signal that is older when it is read waited in a backlog of the classifier or before it.
_STILL_FRESH_SECONDS = 3.0  # After this long without a fresh signal, there is a backlog.
_WARM_SECONDS_MAX = 90.0
_STILL_SECONDS = 30.0  # A run is given up only if no subscriber has read anything for this long.
_AT_ONCE = 50
_CREDITS = 1_000_000
_SUBSCRIBE = orjson.dumps(
    {"jsonrpc": "2.0", "id": 1, "method": "subscribeSignal", "params": [{"kinds": ["largeSwap"]}], "x": "x" * 64}
)


@dataclass
class Subscriber(Reader):
    """One WebSocket. stamps: microseconds at which the node made each signal; delays: seconds until it was read."""

    stamps: list[int] = field(default_factory=list)

    def _take(self, text: bytes, now: float) -> None:
        at = text.find(b'"lamports":')
        if at >= 0:
            stamp = int(text[at + 11 : text.find(b",", at)]) - THRESHOLD
            self.stamps.append(stamp)
            self.delays.append(now - stamp / 1e6)
        elif not self.opened.done():
            assert b'"result":"sig_sub_' in text, text
            self.opened.set_result(None)


class DirectReader:
    """Reads the signals from the node's own stream."""

    def __init__(self) -> None:
        self.stamps: list[int] = []
        self.delays: list[float] = []

    @contextlib.asynccontextmanager
    async def reading(self, target: str) -> AsyncIterator[None]:
        async with grpc.aio.insecure_channel(target) as channel:
            stub: Any = channel.stream_stream(
                api.SUBSCRIBE.path, request_serializer=SubscribeRequest.SerializeToString, response_deserializer=bytes
            )
            request = SubscribeRequest()
            request.transactions[LARGE_ONLY].failed = False
            call = stub()
            await call.write(request)
            task = asyncio.create_task(self._read(call))
            try:
                yield
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def _read(self, call: Any) -> None:
        async for data in call:
            now = time.monotonic()
            at = data.find(TradeEvent.DISCRIMINATOR) + len(TradeEvent.DISCRIMINATOR) + 32
            stamp = int.from_bytes(data[at : at + 8], "little") - THRESHOLD
            self.stamps.append(stamp)
            self.delays.append(now - stamp / 1e6)


async def subscribe(product: Product, keys: Sequence[str], count: int) -> list[Subscriber]:
    """Open this many WebSockets through the front, spread evenly over these accounts."""
    loop = asyncio.get_running_loop()
    url = urlsplit(product.http_url)
    assert url.hostname is not None and url.port is not None
    made: list[Subscriber] = []
    while len(made) < count:
        part: list[Subscriber] = []
        for number in range(len(made), min(count, len(made) + _AT_ONCE)):
            key = keys[number % len(keys)]
            reader = Subscriber("/ws", key, [], loop.create_future(), _SUBSCRIBE, Goal())
            await loop.create_connection(lambda one=reader: one, url.hostname, url.port)  # type: ignore[misc]
            part.append(reader)
        async with asyncio.timeout(120):
            await asyncio.gather(*(reader.opened for reader in part))
        made += part
    return made


def check_complete(direct: Sequence[int], got: Sequence[Sequence[int]]) -> None:
    """Raise where a subscriber misses a signal, has one twice, or has them in another order."""
    wrong = [number for number, stamps in enumerate(got) if list(stamps) != list(direct)]
    if wrong:
        one = got[wrong[0]]
        raise scenario.Wrong(
            f"{len(wrong)} subscribers of {len(got)} differ; one has {len(one)} of {len(direct)} signals"
        )


async def warm_up(reader: Subscriber) -> tuple[float, bool]:
    """Wait until this subscriber has read fresh signals only for a while: then nothing has a backlog.

    Connecting takes the processors from the classifier, which is late afterwards. Returns how long that took, and
    whether the backlog was still there after _WARM_SECONDS_MAX.
    """
    began = fresh_since = time.monotonic()
    looked_at = len(reader.delays)
    while (now := time.monotonic()) - began < _WARM_SECONDS_MAX:
        fresh, looked_at = reader.delays[looked_at:], len(reader.delays)
        newest = reader.stamps[-1] / 1e6 if reader.stamps else began
        if any(delay > _FRESH_SECONDS for delay in fresh) or now - newest > _STILL_FRESH_SECONDS:
            fresh_since = now
        elif now - fresh_since >= _WARM_SECONDS:
            return now - began, False
        await asyncio.sleep(0.1)
    return time.monotonic() - began, True


async def catch_up(readers: Sequence[Subscriber], ended_us: int) -> None:
    """Wait until every subscriber has read a signal that was made after this time, or none has read anything lately."""
    read, since = -1, time.monotonic()
    while any(not reader.stamps or reader.stamps[-1] < ended_us for reader in readers):
        now_read = sum(len(reader.stamps) for reader in readers)
        if now_read != read:
            read, since = now_read, time.monotonic()
        elif time.monotonic() - since > _STILL_SECONDS:
            return
        await asyncio.sleep(0.1)


async def measure(
    product: Product, keys: Sequence[str], source: tuple[int, int], count: int, seconds: float
) -> dict[str, Any]:
    """Measure one step. source: process id and port of the node."""
    direct, pids = DirectReader(), (product.pid, source[0], os.getpid())
    async with direct.reading(f"127.0.0.1:{source[1]}"):
        readers = await subscribe(product, keys, count)
        warm_seconds, has_backlog = await warm_up(readers[0])
        began_us, cpu = time.monotonic_ns() // 1_000, cpu_seconds(pids)
        await asyncio.sleep(seconds)
        ended_us = time.monotonic_ns() // 1_000
        names = product.pids() | {"node of this measurement": source[0], "subscribers": pids[-1]}
        spent = cpu_spent(cpu, cpu_seconds(pids), names)
        await catch_up(readers, ended_us)
    for reader in readers:
        reader.transport.abort()

    def within(stamps: Sequence[int], delays: Sequence[float]) -> list[tuple[int, float]]:
        return [pair for pair in zip(stamps, delays, strict=True) if began_us <= pair[0] < ended_us]

    baseline = within(direct.stamps, direct.delays)
    got = [within(reader.stamps, reader.delays) for reader in readers]
    check_complete([stamp for stamp, _ in baseline], [[stamp for stamp, _ in each] for each in got])
    found = in_ms([delay for each in got for _, delay in each])
    plain = in_ms([delay for _, delay in baseline], "direct_")
    return {
        "subscribers": count,
        "accounts": len(keys),
        "warm_up_seconds": round(warm_seconds, 1),
        "began_with_backlog": has_backlog,
        "signals_per_second": round(len(baseline) / seconds, 1),
        "frames_per_second": round(sum(map(len, got)) / seconds),
        **found,
        **plain,
        "p50_ratio": round(found["p50_ms"] / plain["direct_p50_ms"], 1),
        "p99_ratio": round(found["p99_ms"] / plain["direct_p99_ms"], 1),
        "cores": {name: round(used / seconds, 2) for name, used in sorted(spent.items(), key=lambda row: -row[1])[:10]},
    }


def main(
    subscribers: Annotated[int, typer.Option(min=1)] = 500,
    accounts: Annotated[int, typer.Option(min=1, help="Accounts that own the subscribers.")] = 100,
    rate: Annotated[int, typer.Option(min=1, help="Transactions a second.")] = 1_000,
    every: Annotated[int, typer.Option(min=1, help="Of so many transactions one is a signal.")] = 100,
    seconds: scenario.Seconds = 20.0,
    replicas: Annotated[int, typer.Option(min=1)] = 2,
) -> dict[str, Any]:
    """Measure the delay of signals through the whole product; takes two minutes."""
    port = free_port()
    settings = {
        "LEDGER_UPSTREAM__YELLOWSTONE_URL": f"http://127.0.0.1:{port}",
        "LEDGER_SIGNALS__LARGE_SWAP_LAMPORTS": str(THRESHOLD),
        "LEDGER_IDENTITY__ADDRESS_REQUESTS_PER_MINUTE": "1000000",
        "LEDGER_GATEWAY__REPLICAS": str(replicas),
    }
    command = [sys.executable, "-m", "bench.yellowstone_servers", "signals", "--port", str(port)]
    command += ["--rate", str(rate), "--every", str(every)]
    with running(command, {}, port) as node, started(settings, StaffedProduct) as product:
        customers = [Customer(product) for _ in range(accounts)]
        for customer in customers:
            customer.grant(_CREDITS)
        keys = [customer.api_key for customer in customers]
        found: dict[str, Any] = uvloop.run(measure(product, keys, (node.pid, port), subscribers, seconds))
    scenario.show_figures(f"signals among {rate:,} transactions a second", found)
    targets = (("p50_ms", TARGET_P50_MS), ("p99_ms", TARGET_P99_MS))
    scenario.show_targets([scenario.at_most(name, most, found[name], "{:.1f}") for name, most in targets])
    return found
