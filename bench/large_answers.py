"""Measures large answers, compressed and not, beside another account's small calls.

A node that has blocks of 1 to 50 MB ready, the whole product with one replica, and clients that ask for nothing but
such blocks, each over one connection and in a process beside that of the victim, whose 50 `getSlot` a second are timed.
The clients read and do not decode; one answer of each kind is decoded before, and compared with the block. Reports
times of the answers, processor time of each part for 100 MB of blocks, the most memory, and the victim's latencies.
"""

import asyncio
import gzip
import itertools
import json
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Annotated, Any

import aiohttp
import psutil
import typer
import zstandard

from bench import scenario, systems
from bench.children import Child
from bench.figures import percentile
from bench.loop_figures import held_loops
from bench.processes import cpu_seconds, cpu_spent_by_kind, kinds_of, memory_bytes
from bench.product import Product
from bench.scenario import Wrong
from bench.systems import System
from bench.victim import Victim
from tests.customers import Customer
from tests.product import StaffedProduct

CODINGS = ("none", "zstd", "gzip")
SIZES_MB = (1.1, 10, 50)
_NICENESS = 5  # Real clients have their own machines, so a victim must not compete with them for processor time.
_MARKS = {"replica": "ServeReplica", "compressing": "compressing_worker", "front": "haproxy"}
_WARM_SECONDS = 1.0
_ACCEPTS = {"none": "identity"}


@dataclass(frozen=True, slots=True)
class Row:
    """Answers and the victim's calls in milliseconds; cpu: milliseconds of each part for 100 MB of blocks."""

    megabytes: float
    clients: int
    coding: str
    answers: int
    coded: int
    megabytes_per_second: float
    answer_p50_ms: float
    answer_p90_ms: float
    sent_share: float
    cpu_ms: dict[str, float]
    memory_mb: dict[str, float]
    victim_p50_ms: float
    victim_p99_ms: float
    victim_failures: int
    held_ms: float
    refused: dict[int, int]


@dataclass(frozen=True, slots=True)
class Answer:
    """ended: on the monotonic clock, which all processes of a machine share."""

    ended: float
    seconds: float
    status: int
    bytes: int
    is_coded: bool


def _body(slot: int) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "getBlock", "params": [slot]}).encode()


def check(url: str, key: str, size: int, coding: str) -> None:
    """Decode one answer. Raises Wrong where it is not the same as without coding, or not compressed as asked for."""
    _, plain = _read(url, key, size, "none")
    for _ in range(20):  # The first request starts the process.
        found, whole = _read(url, key, size, coding)
        if found == coding:
            break
        time.sleep(0.1)
    else:
        raise Wrong(f"{size} bytes are not compressed by {coding}")
    if coding == "gzip":
        whole = gzip.decompress(whole)
    elif coding == "zstd":
        whole = zstandard.ZstdDecompressor().decompressobj().decompress(whole)
    if whole != plain or abs(len(whole) - size) > 30:  # The node's id is longer.
        raise Wrong(f"a block of {size} bytes came back as {len(whole)} bytes, {len(plain)} without {coding}")


def _read(url: str, key: str, size: int, coding: str) -> tuple[str, bytes]:
    sent = {"X-Api-Key": key, "Content-Type": "application/json", "Accept-Encoding": _ACCEPTS.get(coding, coding)}
    with urllib.request.urlopen(urllib.request.Request(url, _body(size), sent), timeout=60) as answer:
        return answer.headers.get("content-encoding", "none"), answer.read()


def measure(
    node: System, product: Product, reader: Customer, victim: Victim, kind: tuple[float, int, str], seconds: float
) -> Row:
    """kind: megabytes of each answer, clients, coding."""
    size_mb, clients, coding = kind
    size, accepts = round(size_mb * 1e6), _ACCEPTS.get(coding, coding)
    check(f"{product.http_url}/", reader.api_key, size, coding)
    with closing(Child("bench.large_answers")) as load:
        load.tell(json.dumps([product.http_url, reader.api_key, size, clients, accepts]))
        load.hear()
        time.sleep(_WARM_SECONDS)
        loops, kinds = held_loops(product), kinds_of(product.pid, _MARKS)
        victim.begin(seconds)
        before, began, memory = cpu_seconds((product.pid,)), time.monotonic(), dict[str, float]()
        while time.monotonic() < began + seconds - 0.5:
            for pid, part in kinds.items():
                used = memory_bytes(psutil.Process(pid)) / 1e6 if psutil.pid_exists(pid) else 0.0
                memory[part] = max(memory.get(part, 0.0), used)
            time.sleep(0.5)
        spent, ended = cpu_spent_by_kind(before, cpu_seconds((product.pid,)), kinds), time.monotonic()
        seen = victim.end()
        held = held_loops(product).longest_since(loops)
        load.tell("stop")
        found = [Answer(*one) for one in json.loads(load.hear())]
    refused = Counter(answer.status for answer in found if answer.status != 200)
    found = [answer for answer in found if began <= answer.ended <= ended and answer.status == 200]
    took, megabytes = [answer.seconds for answer in found], len(found) * size / 1e6
    return Row(
        *(size_mb, clients, coding, len(found), sum(answer.is_coded for answer in found)),
        *(megabytes / (ended - began), percentile(took, 50) * 1e3, percentile(took, 90) * 1e3),
        sum(answer.bytes for answer in found) / 1e6 / max(1.0, megabytes),
        {part: round(spent.get(part, 0.0) * 1e5 / max(1.0, megabytes), 1) for part in _MARKS},
        {part: round(most) for part, most in memory.items()},
        *(seen.latency(0.5) * 1e3, seen.latency(0.99) * 1e3),
        sum(seen.failures.values()),
        held * 1e3,
        dict(refused),
    )


def _rows(
    node: System, sizes: Sequence[float], clients: Sequence[int], codings: Sequence[str], seconds: float
) -> Iterator[Row]:
    settings = systems.LIMITS_AWAY | {"LEDGER_UPSTREAM__NODE_URL": node.url, "LEDGER_PAYMENTS__NETWORK": "devnet"}
    settings |= {"LEDGER_GATEWAY__REPLICAS": "1"}
    with systems.started(settings, StaffedProduct) as product:
        reader, other = Customer(product), Customer(product)
        for each in (reader, other):
            each.grant(10_000_000)
            each.limits(10_000, 1_000)
        with closing(Victim(product.http_url, other.api_key)) as victim:
            for size in sizes:
                for count in clients:
                    for coding in codings:
                        row = measure(node, product, reader, victim, (size, count, coding), seconds)
                        scenario.console.print(row)
                        yield row


def main(
    sizes_mb: Annotated[str, typer.Option(help="Sizes of blocks in MB.")] = "1.1,10,50",
    clients: Annotated[str, typer.Option(help="Numbers of clients.")] = "1,4,16",
    codings: Annotated[str, typer.Option(help="Of none, zstd and gzip.")] = ",".join(CODINGS),
    seconds: scenario.Seconds = 8.0,
) -> dict[str, Any]:
    """Measure large answers with and without compression, and another account's calls beside them."""
    sizes, chosen = [float(size) for size in sizes_mb.split(",")], scenario.chosen(codings, CODINGS)
    with systems.upstream() as node:
        rows = list(_rows(node, sizes, scenario.counts(clients), chosen, seconds))
    headings = ("MB", "clients", "coding", "MB/s", "answer p50 ms", "p90", "sent", "coded", "CPU ms per 100 MB")
    table = []
    for row in rows:
        answers = row.megabytes, row.clients, row.coding, row.megabytes_per_second, row.answer_p50_ms, row.answer_p90_ms
        costs = f"{row.sent_share:.0%}", f"{row.coded}/{row.answers}", row.cpu_ms, row.memory_mb
        table.append((*answers, *costs, row.victim_p50_ms, row.victim_p99_ms, row.held_ms))
    scenario.show("large answers", (*headings, "memory MB", "victim p50 ms", "p99", "held ms"), table)
    return {"rows": rows}


async def _client(session: aiohttp.ClientSession, url: str, first: int, stop: asyncio.Event, found: list[Any]) -> None:
    """Request one block after the other, each a different one."""
    for asked in itertools.cycle(range(1, 10_000)):
        if stop.is_set():
            return
        began, read = time.monotonic(), 0
        async with session.post(url, data=_body(first + asked)) as answer:
            while data := await answer.content.readany():
                read += len(data)
        ended = time.monotonic()
        found.append((ended, ended - began, answer.status, read, "content-encoding" in answer.headers))


async def _load(url: str, key: str, size: int, clients: int, accepts: str) -> list[Any]:
    """Send requests until a line arrives."""
    sent = {"X-Api-Key": key, "Content-Type": "application/json", "Accept-Encoding": accepts}
    found, stop = list[Any](), asyncio.Event()
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(headers=sent, connector=connector, auto_decompress=False) as session:
        asking = [
            asyncio.create_task(_client(session, url, size + number * 10_000, stop, found)) for number in range(clients)
        ]
        await asyncio.to_thread(sys.stdin.readline)
        stop.set()
        await asyncio.gather(*asking)
    return found


def _say(found: Any) -> None:
    sys.stdout.write(json.dumps(found) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    psutil.Process().nice(_NICENESS)
    given = json.loads(sys.stdin.readline())
    _say([])
    _say(asyncio.run(_load(*given)))
