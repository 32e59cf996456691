"""`python -m bench.signals`: the delay from a node's update to the frames of subscribers.

A server in a process of its own speaks Yellowstone's protocol and sends transactions at a steady rate; most are trades
below the threshold, some are large swaps. The classifier has a process too, as in the product. Hub and subscribers
share this one: a subscriber is what the hub hands the frame to. Redis is the embedded one. Each update carries its time
in the amount of the trade, so that nothing has to be matched.
"""

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any

import grpc
import typer
from rich.console import Console
from rich.table import Table
from solders.pubkey import Pubkey

from actors.clock import SystemClock
from actors.geyser_proto import api
from actors.geyser_proto.geyser_pb2 import SlotStatus, SubscribeRequest, SubscribeUpdate
from actors.launch_programs.addresses import PUMP
from actors.launch_programs.events import TradeEvent, self_cpi_data
from actors.local_servers.child_processes import Supervisor
from actors.local_servers.datadir import DataDir
from actors.local_servers.embedded_redis import EmbeddedRedis
from actors.signals.actor import SignalClassifier
from actors.signals.block_source import BlockSource
from actors.signals.classify import PROGRAMS
from actors.signals.deliveries import RedisDeliveries
from actors.signals.filters import SignalFilter
from actors.signals.geyser_source import GeyserSource
from actors.signals.history import EVERYTHING, Archived, HistoryQuery
from actors.signals.hub import SignalHub
from actors.signals.log import NO_CURSOR, LogEntry, RedisSignalLog
from actors.signals.replays import Replays
from actors.storage.connections import connect_redis
from actors.upstream.replies import TIMED_OUT, NodeAnswer

TARGET_P50_MS, TARGET_P99_MS = 20.0, 100.0
_THRESHOLD = 1 << 60  # Large swaps carry the microseconds of Unix time above it; other trades less.
_WARM_SECONDS = 3.0
_SLOT_SECONDS = 0.4
_RESULTS = Path(__file__).parent / "results" / "signals.json"


def _update(slot: int, number: int, lamports: int) -> SubscribeUpdate:
    """One transaction of a router that trades on a curve, with the platform's event inside."""
    update = SubscribeUpdate(filters=["programs"])
    found = update.transaction
    found.slot = slot
    info = found.transaction
    info.signature = number.to_bytes(8, "little") * 8
    keys = [bytes([1, n]) * 16 for n in range(18)] + [bytes(PUMP)]
    message = info.transaction.message
    message.header.num_required_signatures = 1
    message.account_keys.extend(keys)
    message.instructions.add(program_id_index=17, accounts=bytes(range(8)), data=b"route")
    event = TradeEvent(Pubkey(number.to_bytes(8, "little") * 4), lamports, 5, True, Pubkey(keys[0]))
    inner = info.meta.inner_instructions.add(index=0)
    trade = bytes.fromhex("66063d1201daebea") + bytes(17)
    inner.instructions.add(program_id_index=18, accounts=bytes(range(17)), data=trade, stack_height=2)
    inner.instructions.add(program_id_index=18, accounts=b"\x01", data=self_cpi_data(event), stack_height=3)
    info.meta.pre_balances.extend([5] * 19)
    info.meta.post_balances.extend([5] * 19)
    return update


class Endpoint:
    """Sends transactions at a steady rate to each subscriber."""

    def __init__(self, transactions_per_second: int, large_share: float) -> None:
        self._rate, self._every = transactions_per_second, max(1, round(1 / large_share))

    async def subscribe(self, requests: Any, context: Any) -> None:
        await context.send_initial_metadata(())
        started, number, slot = time.time(), 0, 1_000
        while True:
            due = int((time.time() - started) * self._rate)
            for number in range(number, due):  # noqa: B020
                large = number % self._every == 0
                update = _update(slot, number, _THRESHOLD + time.time_ns() // 1_000 if large else 5)
                await context.write(update.SerializeToString())
            number = max(number, due)
            if time.time() - started > (slot - 999) * _SLOT_SECONDS:
                for status in (SlotStatus.SLOT_PROCESSED, SlotStatus.SLOT_CONFIRMED):
                    told = SubscribeUpdate(filters=["slots"])
                    told.slot.slot, told.slot.parent, told.slot.status = slot, slot - 1, status
                    await context.write(told.SerializeToString())
                slot += 1
            await asyncio.sleep(0.001)


async def serve(rate: int, large_share: float) -> None:
    server, endpoint = grpc.aio.server(), Endpoint(rate, large_share)
    handler: Any = grpc.stream_stream_rpc_method_handler(
        endpoint.subscribe, request_deserializer=SubscribeRequest.FromString, response_serializer=None
    )
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(api.SERVICE, {api.SUBSCRIBE.name: handler}),))
    print(server.add_insecure_port("127.0.0.1:0"), flush=True)
    await server.start()
    await server.wait_for_termination()


class _NoNode:
    async def call(self, method: str, params: bytes, timeout_ms: int) -> NodeAnswer:
        return TIMED_OUT


async def classify(url: str, redis_url: str) -> None:
    log = RedisSignalLog(await connect_redis(redis_url))
    stream = GeyserSource(url, PROGRAMS)
    classifier = SignalClassifier(
        *("bench", PROGRAMS, stream, lambda until: BlockSource(_NoNode(), PROGRAMS, until=until), log, SystemClock()),
        large_swap_lamports=_THRESHOLD,
    )
    classifier.start()
    await asyncio.Event().wait()


class NoHistory:
    """The measurement needs no history: every cursor is in memory."""

    async def archived(self) -> Archived:
        return Archived(NO_CURSOR, 0)

    async def add(self, entries: Any) -> None: ...

    async def keep(self, now_ms: int, days: int) -> None: ...

    async def read(self, after: str, count: int, query: HistoryQuery = EVERYTHING) -> list[LogEntry]:
        return []


class FrameSink:
    """A socket's other end: notes how old the signal is when its frame would leave."""

    def __init__(self, delays_ms: list[float]) -> None:
        self.delays_ms, self.frames = delays_ms, 0

    def deliver(self, body: bytes, charged: bool) -> bool:
        self.frames += 1
        sent_us = int(body.partition(b'"lamports":')[2].partition(b",")[0]) - _THRESHOLD
        self.delays_ms.append(time.time_ns() / 1e6 - sent_us / 1e3)
        return True


async def measure(redis_url: str, subscribers: int, seconds: float) -> dict[str, Any]:
    redis = await connect_redis(redis_url)
    log, history = RedisSignalLog(redis), NoHistory()
    hub = SignalHub(log, Replays(log, history), RedisDeliveries(redis), SystemClock())
    await hub.start()
    delays_ms: list[float] = []
    sinks = [FrameSink(delays_ms) for _ in range(subscribers)]
    for number, sink in enumerate(sinks):
        hub.begin(await hub.subscribe(number.to_bytes(32, "big"), SignalFilter(), sink))
    await asyncio.sleep(_WARM_SECONDS)
    delays_ms.clear()
    before, began = hub.version, time.monotonic()
    await asyncio.sleep(seconds)
    took, events = time.monotonic() - began, hub.version - before
    found = sorted(delays_ms)
    await hub.stop()
    await redis.aclose()
    if not found:
        raise RuntimeError("no signal arrived")
    return {
        "subscribers": subscribers,
        "signals_per_second": round(events / took, 1),
        "frames_per_second": round(len(found) / took),
        "p50_ms": round(statistics.median(found), 2),
        "p99_ms": round(found[int(len(found) * 0.99)], 2),
        "max_ms": round(found[-1], 2),
    }


def main(
    subscribers: Annotated[int, typer.Option(min=1)] = 500,
    rate: Annotated[int, typer.Option(min=1, help="transactions a second")] = 1_000,
    large_share: Annotated[float, typer.Option(min=0.0001, max=1, help="of them that are signals")] = 0.01,
    seconds: Annotated[float, typer.Option(min=1)] = 20.0,
    role: Annotated[str, typer.Option(hidden=True)] = "",
    url: Annotated[str, typer.Option(hidden=True)] = "",
    redis_url: Annotated[str, typer.Option(hidden=True)] = "",
) -> None:
    if role == "serve":
        asyncio.run(serve(rate, large_share))
        return
    if role == "classify":
        asyncio.run(classify(url, redis_url))
        return
    with tempfile.TemporaryDirectory(prefix="bench-signals-") as folder, Supervisor() as supervisor:
        os.chmod(folder, 0o711)
        redis = EmbeddedRedis(DataDir(Path(folder) / "data"))
        supervisor.start(redis.child)
        me = [sys.executable, "-m", "bench.signals"]
        server = subprocess.Popen(
            [*me, "--role", "serve", "--rate", str(rate), "--large-share", str(large_share)], stdout=subprocess.PIPE
        )
        assert server.stdout is not None
        port = int(server.stdout.readline())
        endpoint = f"http://127.0.0.1:{port}"
        classifier = subprocess.Popen([*me, "--role", "classify", "--url", endpoint, "--redis-url", redis.url])
        try:
            result = asyncio.run(measure(redis.url, subscribers, seconds)) | {"transactions_per_second": rate}
        finally:
            for process in (classifier, server):
                process.kill()
                process.wait()
    table = Table("figure", "measured", "target")
    targets = {"p50_ms": f"< {TARGET_P50_MS:g}", "p99_ms": f"< {TARGET_P99_MS:g}"}
    for name, value in result.items():
        table.add_row(name, str(value), targets.get(name, ""))
    Console().print(table)
    _RESULTS.parent.mkdir(exist_ok=True)
    _RESULTS.write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    typer.run(main)
