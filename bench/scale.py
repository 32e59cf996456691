"""Measures what a call costs when replicas and owners of accounts become more: 1, 2 and 4 of each.

All shapes run at the same time before one node with constant answers, and each round loads one after the other, so that
a machine that changes its speed changes all; a ratio is of two steps of one round. Accounts are many, each with a key
of its own, as one account has one owner. The figure is processor time.

Also processor time grows where more processes than cores take turns, as each finds less of its own in the caches and
does less in each turn. So beside NxN stand N products of 1x1, which share nothing but the machine, loaded at the same
moment with as many connections together: what NxN costs beyond them is the price of sharing accounts and replicas, and
the rest is the machine's.
"""

import asyncio
import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
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
    """Products that are loaded at the same moment, each with `count` replicas and as many owners. keys: of the accounts
    of each."""

    count: int
    products: Sequence[Product]
    keys: Sequence[Sequence[str]]

    @property
    def replicas(self) -> int:
        return self.count * len(self.products)

    @property
    def name(self) -> str:
        name = f"{self.count}x{self.count}"
        return f"{len(self.products)} of {name}" if len(self.products) > 1 else name


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
def running(
    counts: Sequence[int], accounts: int, node_url: str, root: Path, beside: bool = False
) -> Iterator[list[Shape]]:
    """Run a product of each count, all at the same time. beside: and for each count, as many products of the first
    shape as make that count together."""
    first = counts[0]
    most = max(counts) // first if beside else 1
    with ExitStack() as stack:
        products = []
        for count in (*counts, *[first] * (most - 1)):
            settings = LIMITS_AWAY | {
                "LEDGER_UPSTREAM__NODE_URL": node_url,
                "LEDGER_PAYMENTS__NETWORK": "devnet",
                "LEDGER_GATEWAY__REPLICAS": str(count),
                "LEDGER_ACCOUNTS__SHARD_ACTORS": str(count),
            }
            # One after the other: a machine that starts three at once is too slow for each.
            products.append(stack.enter_context(started(settings, partial(Product, root=root))))
        keys = [many_accounts.opened(product, accounts, _CALLS_CREDITS) for product in products]
        shapes = [Shape(count, products[at : at + 1], keys[at : at + 1]) for at, count in enumerate(counts)]
        single = [0, *range(len(counts), len(products))]
        for count in counts[1:] if beside else ():
            chosen = single[: count // first]
            shapes.append(Shape(first, [products[at] for at in chosen], [keys[at] for at in chosen]))
        yield shapes


def spent_by_part(
    before: Mapping[tuple[int, float], float], after: Mapping[tuple[int, float], float], parts: Mapping[int, str]
) -> dict[str, float]:
    """Return the seconds of each part between two readings."""
    return dict.fromkeys(PARTS, 0.0) | cpu_spent_by_kind(before, after, parts)


async def _wal_position(data_dir: Path) -> int:
    async with reading(None, data_dir, "bench scale") as connection:
        return int(await connection.fetchval("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint"))


def together(loads: Sequence[Load]) -> Load:
    """Return what several generators did at the same moment as one: the mean of their medians, the worst p99."""
    first = loads[0]
    return replace(
        first,
        connections=sum(one.connections for one in loads),
        answered=sum(one.answered for one in loads),
        errors=sum(one.errors for one in loads),
        latency_p50_ms=statistics.fmean(one.latency_p50_ms for one in loads),
        latency_p99_ms=max(one.latency_p99_ms for one in loads),
    )


def step(shape: Shape, connections: int, seconds: float) -> Step:
    products = shape.products
    pids = tuple(product.pid for product in products)
    parts = {pid: part for one in pids for pid, part in kinds_of(one, _MARKS).items()}
    ports = {
        "clients to HAProxy": {product.ports.http for product in products},
        "HAProxy to replicas": links.ports_of(pid for pid, part in parts.items() if part == "replicas"),
        "replicas to owners": links.ports_of(pid for pid, part in parts.items() if part == "owners"),
    }

    def wal_positions() -> int:
        return sum(asyncio.run(_wal_position(product.data_dir)) for product in products)

    def loaded(for_seconds: float) -> Load:
        def one(product: Product, keys: Sequence[str]) -> Load:
            return load.timed(f"{product.http_url}/", ",".join(keys), connections // len(products), for_seconds)

        with ThreadPoolExecutor(len(products)) as generators:
            return together(list(generators.map(one, products, shape.keys)))

    loaded(_WARM_UP_SECONDS)
    wal_before, link_before = wal_positions(), links.passed(ports)
    before = cpu_seconds(pids)
    seen = loaded(seconds)
    after = cpu_seconds(pids)
    passed, wal = links.passed(ports), wal_positions() - wal_before
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
    beside: Annotated[bool, typer.Option(help="Also as many products of the first shape, beside each other.")] = True,
    tree_of: Annotated[str, typer.Option("--root", help="The source tree that runs.")] = str(ROOT),
) -> dict[str, Any]:
    """Measure the cost of a call with more and more replicas and owners; takes about ten minutes.

    The last table has the first number of connections for each replica: as many calls for each, whatever the shape.
    """
    wanted, numbers = scenario.counts(counts), scenario.counts(connections)
    if beside and any(count % wanted[0] for count in wanted):
        raise typer.BadParameter(
            f"each count must be a multiple of {wanted[0]}, or say --no-beside", param_hint="counts"
        )
    steps: dict[tuple[str, int], list[Step]] = defaultdict(list)
    with systems.upstream() as node, running(wanted, accounts, node.url, Path(tree_of), beside) as shapes:
        for number in range(rounds):
            for shape in shapes if number % 2 else reversed(shapes):
                for connected in sorted({*numbers, numbers[0] * shape.replicas // wanted[0]}):
                    steps[shape.name, connected].append(step(shape, connected, seconds))
    first = shapes[0].name
    tables = {f"{number} connections": {shape.name: number for shape in shapes} for number in numbers}
    tables[f"{numbers[0]} connections for each replica"] = {
        shape.name: numbers[0] * shape.replicas // wanted[0] for shape in shapes
    }
    found = {
        title: {name: figures_of(steps[name, number], steps[first, columns[first]]) for name, number in columns.items()}
        for title, columns in tables.items()
    }
    for title, columns in found.items():
        _shown(f"{title}, {accounts} accounts, medians of {rounds} rounds", columns)
    scenario.show_targets(
        scenario.at_most(f"{name} by {base}, {title}", RATIO_MAX, figures["ratio"] / columns[base]["ratio"], "{:.2f}")
        for title, columns in found.items()
        for name, figures in columns.items()
        for base in (first, f"{name.partition('x')[0]} of {first}")
        if name != first and base in columns and " of " not in name
    )
    if any(one["errors"] for columns in found.values() for one in columns.values()):
        raise scenario.Wrong("a call failed", found)
    return found
