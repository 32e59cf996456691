"""Measures signals of one program, shared by one, two and four classifiers, in the same run.

A node in its own process (yellowstone_servers.py) sends trades of one program at a steady rate, each of them a signal.
Each classifier is a process with the product's classes, as a Ray actor has them; the log is a real Redis that writes to
disk. A reader follows the log, as each replica does. For each number of classifiers the log must have every signal
once, in the order of the node's slots; else the run fails. The ratios are to one classifier of the same run, because
machines differ.

`python -m bench.classifiers` is one classifier, driven by children.py.
"""

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer
import uvloop
from redis.asyncio import Redis
from solders.signature import Signature

from actors.clock import SystemClock
from actors.local_servers.child_processes import Supervisor
from actors.local_servers.datadir import DataDir
from actors.local_servers.embedded_redis import EmbeddedRedis
from actors.signals.actor import SignalClassifier
from actors.signals.classify import PROGRAMS
from actors.signals.geyser_source import GeyserSource
from actors.signals.history import Archived, SignalHistory
from actors.signals.log import NO_CURSOR, RedisSignalLog, SignalLogUnavailable
from actors.signals.sources import ChainSource
from actors.storage.connections import checked_redis
from bench import scenario
from bench.children import Child
from bench.figures import in_ms
from bench.systems import free_port, running
from bench.yellowstone_servers import FIRST_SLOT, THRESHOLD

_PAGE = 2_000
_STILL_SECONDS = 10.0  # After this long without a new signal, the log is complete.
_START_SECONDS = 60.0  # Includes the start of the processes.
_LENGTH_MAX = 10_000_000


class _NoHistory:
    """Redis does not fail here, so nothing is ever restored."""

    async def archived(self) -> Archived:
        return Archived(NO_CURSOR, 0)


async def _classify(part: int, redis_url: str, node_port: int) -> None:
    """Run one classifier until the input ends."""

    def no_blocks(until: int | None) -> ChainSource:
        raise scenario.Wrong(f"the stream broke, and blocks up to {until} were asked for")

    history: SignalHistory = _NoHistory()  # type: ignore[assignment]
    classifier = SignalClassifier(
        *(part, 1, GeyserSource(f"http://127.0.0.1:{node_port}", PROGRAMS), no_blocks),
        *(RedisSignalLog(await checked_redis(redis_url), _LENGTH_MAX), history, SystemClock()),
        large_swap_lamports=THRESHOLD,
    )
    classifier.start()
    began = time.process_time()
    while await asyncio.to_thread(sys.stdin.readline):
        used = time.process_time() - began
        print(orjson.dumps({"used": used, **classifier.health()}).decode(), flush=True)
    await classifier.stop()


class Reader:
    """Follows the log. delays: seconds from the node to here. slots, numbers: of the signals, in the log's order."""

    def __init__(self, log: RedisSignalLog) -> None:
        self._log = log
        self.delays: list[float] = []
        self.slots: list[int] = []
        self.numbers: list[int] = []

    async def read_until_still(self) -> None:
        """Read until no signal has come for a while, at first until processes have started."""
        cursor, heard = NO_CURSOR, time.monotonic()
        while time.monotonic() - heard < (_STILL_SECONDS if self.slots else _START_SECONDS):
            try:
                page = await self._log.read(cursor, _PAGE, wait_ms=500)
            except SignalLogUnavailable:  # The machine is too busy to answer within seconds.
                continue
            for entry in page:
                cursor, heard = entry.cursor, time.monotonic()
                if entry.event is None or entry.change != "event" or entry.event.lamports is None:
                    raise scenario.Wrong(f"the log has {entry.change}: {entry.gap}")
                self.slots.append(entry.event.slot)
                self.numbers.append(int.from_bytes(bytes(Signature.from_string(entry.event.signature))[:8], "little"))
                self.delays.append(heard - (entry.event.lamports - THRESHOLD) / 1e6)

    def check(self, sent: int) -> None:
        if sorted(self.numbers) != list(range(1, sent + 1)):
            missing = sorted(set(range(1, sent + 1)) - set(self.numbers))
            raise scenario.Wrong(f"{len(self.numbers)} signals of {sent}; missing {len(missing)}: {missing[:5]}")
        if self.slots != sorted(self.slots):
            raise scenario.Wrong("the log is not in the order of slots")


async def _commands(redis: Redis) -> int:
    return int((await redis.info("stats"))["total_commands_processed"])


async def _measure(redis_url: str, node_port: int, classifiers: int, sent: int, seconds: float) -> dict[str, Any]:
    redis = await checked_redis(redis_url)
    await redis.flushall()
    log = RedisSignalLog(redis, _LENGTH_MAX)
    await log.restore({}, [])
    claim = await log.claim(0, 1, None)
    await log.append(claim, FIRST_SLOT - 1, FIRST_SLOT - 1, [])
    division = await log.divide(classifiers)
    children = [Child("bench.classifiers", str(part), redis_url, str(node_port)) for part in range(classifiers)]
    try:
        reader = Reader(RedisSignalLog(await checked_redis(redis_url)))
        before, began = await _commands(redis), time.monotonic()
        await reader.read_until_still()
        commands, spent = await _commands(redis) - before, time.monotonic() - began
        for child in children:
            child.tell("health")
        health = [orjson.loads(await asyncio.to_thread(child.hear)) for child in children]
    finally:
        for child in children:
            child.close()
    reader.check(sent)
    used = [each["used"] for each in health]
    assert {each["division"] for each in health} == {division.epoch}, health
    shares = [each["transactions"] for each in health]
    return {
        "classifiers": classifiers,
        "signals": len(reader.numbers),
        "signals_per_second": round(sent / seconds),
        **in_ms(reader.delays[len(reader.delays) // 5 :]),
        "cores_of_the_busiest": round(max(used) / seconds, 3),
        "cores_of_all": round(sum(used) / seconds, 3),
        "largest_share": round(max(shares) * classifiers / sum(shares), 3),
        "redis_commands_per_second": round(commands / spent),
    }


def main(
    rate: Annotated[int, typer.Option(min=1, help="Signals a second.")] = 3_000,
    classifiers: Annotated[str, typer.Option(help="How many of them, one run after the other.")] = "1,2,4",
    seconds: scenario.Seconds = 20.0,
) -> list[dict[str, Any]]:
    """Measure classifiers that share one program."""
    found: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder, DataDir(Path(folder) / "data") as data, Supervisor() as supervisor:
        redis = EmbeddedRedis(data)
        supervisor.start(redis.child)
        for count in scenario.counts(classifiers):
            port, sent = free_port(), int(rate * seconds)
            command = [sys.executable, "-m", "bench.yellowstone_servers", "signals", "--port", str(port)]
            command += ["--rate", str(rate), "--every", "1", "--readers", str(count), "--count", str(sent)]
            with running(command, {}, port):
                found.append(uvloop.run(_measure(redis.url, port, count, sent, seconds)))
    for each in found:
        each["busiest_ratio"] = round(each["cores_of_the_busiest"] / found[0]["cores_of_the_busiest"], 2)
        each["carried_by_a_core_each"] = round(rate / each["cores_of_the_busiest"])
        each["carried_ratio"] = round(found[0]["cores_of_the_busiest"] / each["cores_of_the_busiest"], 2)
        each["p50_ratio"] = round(each["p50_ms"] / found[0]["p50_ms"], 2)
    _show(found)
    return found


def _show(found: Sequence[dict[str, Any]]) -> None:
    names = [
        *("classifiers", "signals_per_second", "p50_ms", "p99_ms", "cores_of_the_busiest", "busiest_ratio"),
        *("carried_by_a_core_each", "carried_ratio", "cores_of_all", "largest_share", "redis_commands_per_second"),
    ]
    scenario.show("signals of one program", names, [[each[name] for name in names] for each in found])


if __name__ == "__main__":
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    uvloop.run(_classify(int(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
