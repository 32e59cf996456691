"""Measures what a call costs when replicas and owners of accounts become more: 1, 2 and 4 of each.

All shapes run at the same time before one node with constant answers, and each round loads one after the other, so that
a machine that changes its speed changes all; a ratio is of two steps of one round. Accounts are many, each with a key
of its own, as one account has one owner. The figure is processor time, which a machine that is full does not change,
as it changes calls a second: all shapes have the same few cores.
"""

import asyncio
import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from actors.accounts.audit_database import reading
from bench import links, load, many_accounts, scenario, systems
from bench.figures import Load
from bench.links import Passed
from bench.processes import cpu_seconds, cpu_spent_by_kind, kinds_of
from bench.product import ROOT, Product
from bench.scenario import console
from bench.systems import LIMITS_AWAY, started

RATIO_MAX = 1.15
_MARKS = {
    "HAProxy": "haproxy.cfg",
    "replicas": "ray::ServeReplica",
    "owners": "ray::AccountShard",
    "PostgreSQL": "postgres",
}
PARTS = (*_MARKS, "other")
_CALLS_CREDITS = 1_000_000_000
_WARM_UP_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Shape:
    """A product with so many replicas and owners. keys: of its accounts."""

    count: int
    product: Product
    keys: Sequence[str]

    @property
    def name(self) -> str:
        return f"{self.count}x{self.count}"


@dataclass(frozen=True, slots=True)
class Step:
    """Of one shape under load. cpu_us: of one call by part. link: of all calls. wal_bytes: PostgreSQL's log, a call."""

    load: Load
    cpu_us: Mapping[str, float]
    link: Mapping[str, Passed]
    wal_bytes: float

    @property
    def cpu_us_a_call(self) -> float:
        return sum(self.cpu_us.values())


@contextmanager
def running(counts: Sequence[int], accounts: int, node_url: str, root: Path) -> Iterator[list[Shape]]:
    """Run a product of each count, all at the same time."""
    with ExitStack() as stack:
        products = []
        for count in counts:
            settings = LIMITS_AWAY | {
                "LEDGER_UPSTREAM__NODE_URL": node_url,
                "LEDGER_PAYMENTS__NETWORK": "devnet",
                "LEDGER_GATEWAY__REPLICAS": str(count),
                "LEDGER_ACCOUNTS__SHARD_ACTORS": str(count),
            }
            # One after the other: a machine that starts three at once is too slow for each.
            products.append(stack.enter_context(started(settings, partial(Product, root=root))))
        keys = [many_accounts.opened(product, accounts, _CALLS_CREDITS) for product in products]
        yield [Shape(*each) for each in zip(counts, products, keys, strict=True)]


def spent_by_part(
    before: Mapping[tuple[int, float], float], after: Mapping[tuple[int, float], float], parts: Mapping[int, str]
) -> dict[str, float]:
    """Return the seconds of each part between two readings."""
    return dict.fromkeys(PARTS, 0.0) | cpu_spent_by_kind(before, after, parts)


async def _wal_position(data_dir: Path) -> int:
    async with reading(None, data_dir, "bench scale") as connection:
        return int(await connection.fetchval("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint"))


def step(shape: Shape, connections: int, seconds: float) -> Step:
    product = shape.product
    parts = kinds_of(product.pid, _MARKS)
    ports = {
        "clients to HAProxy": {product.ports.http},
        "HAProxy to replicas": links.ports_of(pid for pid, part in parts.items() if part == "replicas"),
        "replicas to owners": links.ports_of(pid for pid, part in parts.items() if part == "owners"),
    }
    keys = ",".join(shape.keys)
    load.timed(f"{product.http_url}/", keys, connections, _WARM_UP_SECONDS)
    wal_before, link_before = asyncio.run(_wal_position(product.data_dir)), links.passed(ports)
    before = cpu_seconds((product.pid,))
    seen = load.timed(f"{product.http_url}/", keys, connections, seconds)
    after = cpu_seconds((product.pid,))
    passed, wal = links.passed(ports), asyncio.run(_wal_position(product.data_dir)) - wal_before
    calls = max(1, seen.answered)
    cpu_us = {part: value * 1e6 / calls for part, value in spent_by_part(before, after, parts).items()}
    found = Step(seen, cpu_us, {name: passed[name].since(link_before[name]) for name in ports}, wal / calls)
    console.print(
        f"  {shape.name}, {connections} connections: {found.cpu_us_a_call:,.0f} µs a call, "
        f"{seen.per_second:,.0f} calls/s, p50 {seen.latency_p50_ms:.1f} ms, {seen.errors} errors"
    )
    return found


def figures_of(steps: Sequence[Step], first: Sequence[Step]) -> dict[str, float]:
    """Return the medians over rounds. first: the steps of the smallest shape, of the same rounds."""
    median = statistics.median
    found = {
        "CPU µs a call": median(one.cpu_us_a_call for one in steps),
        "ratio": median(one.cpu_us_a_call / base.cpu_us_a_call for one, base in zip(steps, first, strict=True)),
    }
    for part in PARTS:
        found[f"{part} µs"] = median(one.cpu_us[part] for one in steps)
    found |= {
        "calls/s": median(one.load.per_second for one in steps),
        "p50 ms": median(one.load.latency_p50_ms for one in steps),
        "p99 ms": median(one.load.latency_p99_ms for one in steps),
        "WAL bytes a call": median(one.wal_bytes for one in steps),
        "errors": sum(one.load.errors for one in steps),
    }
    for name in steps[0].link:
        calls = [max(1, one.load.answered) for one in steps]
        if not any(one.link[name].reads for one in steps):
            continue  # A Unix socket, or another kind of connection.
        each = list(zip((one.link[name] for one in steps), calls, strict=True))
        found[f"{name}, bytes a call"] = median((one.sent + one.received) / count for one, count in each)
        found[f"{name}, calls a message"] = median(count / max(1, one.reads) for one, count in each)
    return found


def _shown(title: str, columns: Mapping[str, dict[str, float]]) -> None:
    rows = list(next(iter(columns.values())))
    cells = ((row, *(float(each.get(row, 0.0)) for each in columns.values())) for row in rows)
    scenario.show(title, ("", *columns), cells)


def main(
    counts: Annotated[str, typer.Option(help="Replicas, and as many owners, of each shape.")] = "1,2,4",
    connections: Annotated[str, typer.Option(help="Connection counts, one step each for all shapes.")] = "64,128",
    accounts: Annotated[int, typer.Option(min=1, help="Accounts, which connections have in turn.")] = 64,
    seconds: scenario.Seconds = 2.5,
    rounds: scenario.Rounds = 3,
    tree_of: Annotated[str, typer.Option("--root", help="The source tree that runs.")] = str(ROOT),
) -> dict[str, Any]:
    """Measure the cost of a call with more and more replicas and owners; takes about four minutes.

    The last table has the first number of connections for each replica: as many calls for each, whatever the shape.
    """
    wanted, numbers = scenario.counts(counts), scenario.counts(connections)
    steps: dict[tuple[int, int], list[Step]] = defaultdict(list)
    with systems.upstream() as node, running(wanted, accounts, node.url, Path(tree_of)) as shapes:
        for number in range(rounds):
            for shape in shapes if number % 2 else reversed(shapes):
                for connected in sorted({*numbers, numbers[0] * shape.count}):
                    steps[shape.count, connected].append(step(shape, connected, seconds))
    first = wanted[0]
    tables = {f"{number} connections": {count: (count, number) for count in wanted} for number in numbers}
    tables[f"{numbers[0]} connections for each replica"] = {count: (count, numbers[0] * count) for count in wanted}
    found = {
        title: {f"{count}x{count}": figures_of(steps[key], steps[keys[first]]) for count, key in keys.items()}
        for title, keys in tables.items()
        if all(key in steps for key in keys.values())
    }
    for title, columns in found.items():
        _shown(f"{title}, {accounts} accounts, medians of {rounds} rounds", columns)
    scenario.show_targets(
        scenario.at_most(f"{name} by {first}x{first}, {title}", RATIO_MAX, figures["ratio"], "{:.2f}")
        for title, columns in found.items()
        for name, figures in columns.items()
        if name != f"{first}x{first}"
    )
    if any(one["errors"] for columns in found.values() for one in columns.values()):
        raise scenario.Wrong("a call failed", found)
    return found
