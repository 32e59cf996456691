"""Measures billed calls: the product, the node alone, a hand-written gateway, and an empty Ray Serve application."""

import dataclasses
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Annotated, Any

import typer

from bench import load, scenario, systems
from bench.figures import Load
from bench.processes import MemoryWatch, cpu_seconds, cpu_spent, memory_by_name, memory_sum_bytes
from bench.scenario import Target, at_least, at_most, console
from bench.systems import BASELINE, DEVNODE, DEVNODE_GATEWAY, GATEWAY, NOOP, UPSTREAM, System

SYSTEMS = (UPSTREAM, NOOP, BASELINE, GATEWAY, DEVNODE, DEVNODE_GATEWAY)
PRICE_CREDITS = 1  # getSlot: READ_CHEAP.
_COUNTED_CONNECTIONS = 64
_IDLE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Row:
    """One step on one system. debited_credits None: the system has no accounts."""

    system: str
    load: Load
    cpu_seconds_by_name: Mapping[str, float]  # Of all processes of the system, without generator and upstream.
    memory_bytes_max: int  # Largest sum of proportional set sizes.
    debited_credits: int | None

    @property
    def cpu_us_per_call(self) -> float:
        return sum(self.cpu_seconds_by_name.values()) * 1e6 / self.load.answered if self.load.answered else 0.0

    @property
    def uncounted_credits(self) -> int | None:
        return None if self.debited_credits is None else self.debited_credits - self.load.answered * PRICE_CREDITS


@dataclass(frozen=True, slots=True)
class Exactness:
    """A run in which every answer was awaited: the number of answers, and the credits in the ledger."""

    system: str
    answered: int
    errors: int
    debited_credits: int
    audit_balances: bool | None  # None: the system has no audit.

    @property
    def off_by(self) -> int:
        """Return the credits debited for calls without an answer; below zero: answered and not debited."""
        return self.debited_credits - self.answered * PRICE_CREDITS


def step(
    system: System, connections: int, seconds: float, warm_up_seconds: float, ready: Callable[[], object] | None = None
) -> Row:
    """Load a running system, and measure it from outside. ready: called before the measured part begins; it may wait
    for others."""
    if warm_up_seconds:
        load.timed(system.url, system.api_key, connections, warm_up_seconds)
    balance_before = systems.settled_balance(system)
    if ready is not None:
        ready()
    cpu_before = cpu_seconds(system.pids())
    with MemoryWatch(lambda: memory_sum_bytes(system.pids())) as memory:
        seen = load.timed(system.url, system.api_key, connections, seconds)
        names = {} if system.product is None else system.product.pids()
        spent = cpu_spent(cpu_before, cpu_seconds(system.pids()), names)
    row = Row(system.name, seen, spent, memory.bytes_max, _debited(balance_before, systems.settled_balance(system)))
    console.print(
        f"  {system.name}, {connections} connections: {seen.per_second:,.0f} calls/s, "
        f"p50 {seen.latency_p50_ms:.2f} ms, p99 {seen.latency_p99_ms:.2f} ms, {seen.errors} errors"
    )
    return row


def counted(system: System, calls: int) -> Exactness:
    """Make calls and wait for all of them; compare them with the debited credits."""
    before = systems.settled_balance(system)
    seen = load.counted(system.url, system.api_key, _COUNTED_CONNECTIONS, calls)
    debited = _debited(before, systems.settled_balance(system))
    assert debited is not None
    audit = None if system.product is None else system.product.audit()
    if audit is not None and audit.returncode != 0:
        console.print(audit.stdout + audit.stderr, markup=False)
    balances = None if audit is None else audit.returncode == 0
    found = Exactness(system.name, seen.answered, seen.errors, debited, balances)
    console.print(f"  {system.name}, {found.answered:,} counted calls: credits off by {found.off_by}")
    return found


def _debited(before: int | None, after: int | None) -> int | None:
    return None if before is None or after is None else before - after


@dataclass(slots=True)
class Results:
    rows: list[Row] = field(default_factory=list)
    exactness: list[Exactness] = field(default_factory=list)
    idle_bytes: dict[str, int] | None = None

    def find(self, system: str, connections: int) -> Load | None:
        found = (row.load for row in self.rows if row.system == system and row.load.connections == connections)
        return next(found, None)

    def ratio(self, connections: int, system: str = GATEWAY, to: str = BASELINE) -> float | None:
        """Divide the calls per second of one system by those of another, at the same number of connections."""
        ours, theirs = self.find(system, connections), self.find(to, connections)
        return None if ours is None or theirs is None or not theirs.answered else ours.per_second / theirs.per_second

    def added_ms(self, connections: int) -> float | None:
        """Return the median latency that the gateway adds to that of the upstream alone."""
        ours, direct = self.find(GATEWAY, connections), self.find(UPSTREAM, connections)
        return None if ours is None or direct is None else ours.latency_p50_ms - direct.latency_p50_ms

    def targets(self) -> tuple[Target, ...]:
        at_128 = self.find(GATEWAY, 128)
        exact = next((run for run in self.exactness if run.system == GATEWAY), None)
        off_by = None if exact is None else exact.off_by
        return (
            at_least("calls/s, 64 connections, times the baseline", 5.0, self.ratio(64), "{:.1f}"),
            at_least("calls/s, 128 connections", 3_500, at_128.per_second if at_128 else None),
            at_most("p99 ms, 128 connections", 100.0, at_128.latency_p99_ms if at_128 else None, "{:.1f}"),
            at_most("p50 ms added, 1 connection", 2.5, self.added_ms(1), "{:.2f}"),
            at_most("p50 ms added, 8 connections", 6.0, self.added_ms(8), "{:.2f}"),
            Target(
                "credits off by, counted calls",
                "= 0",
                None if off_by is None else str(off_by),
                None if off_by is None else off_by == 0,
            ),
            at_most(
                "idle memory of the whole product, MB",
                1_500,
                sum(self.idle_bytes.values()) / 1e6 if self.idle_bytes else None,
            ),
        )

    def show(self) -> None:
        headings: tuple[str, ...] = ("system", "conns", "calls/s", "of the no-op", "p50 ms", "p99 ms", "errors")
        rows = []
        for row in self.rows:
            seen = row.load
            speed = (f"{seen.per_second:,.0f}", self.ratio(seen.connections, row.system, NOOP))
            times = (seen.latency_p50_ms, seen.latency_p99_ms, seen.errors, f"{row.cpu_us_per_call:,.0f}")
            memory = f"{row.memory_bytes_max / 1e6:,.0f}"
            rows.append((row.system, seen.connections, *speed, *times, memory, row.uncounted_credits))
        title = f"getSlot, one call a request, load from {load.tool()} on the same machine"
        scenario.show(title, (*headings, "CPU µs a call", "memory MB", "uncounted credits"), rows)
        if load.tool() == "wrk":
            console.print("[dim]uncounted: wrk breaks off up to one call a connection; counted runs are exact.[/dim]")
        gateway = [row for row in self.rows if row.system == GATEWAY and row.load.answered]
        if gateway:
            row = max(gateway, key=lambda row: row.load.connections)
            spent = {name: seconds * 1e6 / row.load.answered for name, seconds in row.cpu_seconds_by_name.items()}
            title = f"CPU microseconds of one call through the gateway, {row.load.connections} connections"
            scenario.show(title, ("process", "µs"), _largest_first(spent))
            headings = ("connections", "gateway / baseline, calls/s", "p50 ms added to upstream")
            numbers = [row.load.connections for row in gateway]
            scenario.show("Comparisons", headings, ((n, self.ratio(n), self.added_ms(n)) for n in numbers))
        runs = ((*dataclasses.astuple(run)[:4], run.off_by, run.audit_balances) for run in self.exactness)
        headings = ("system", "answered", "errors", "credits debited", "credits off by", "audit balances")
        scenario.show("Counted calls: every answer was waited for", headings, runs)
        if self.idle_bytes:
            idle = {**self.idle_bytes, "all": sum(self.idle_bytes.values())}
            title = "Memory of the whole product, idle (sum of proportional set sizes)"
            scenario.show(title, ("process", "MB"), _largest_first({name: size / 1e6 for name, size in idle.items()}))
        scenario.show_targets(self.targets())

    def written(self) -> dict[str, Any]:
        """Return all figures for the results file."""
        rows = [
            {
                **dataclasses.asdict(row),
                "per_second": row.load.per_second,
                "of_the_noop": self.ratio(row.load.connections, row.system, NOOP),
                "cpu_us_per_call": row.cpu_us_per_call,
            }
            for row in self.rows
        ]
        exactness = [{**dataclasses.asdict(run), "off_by": run.off_by} for run in self.exactness]
        return {"rows": rows, "exactness": exactness, "idle_bytes": self.idle_bytes, "targets": self.targets()}


def _largest_first(figures: Mapping[str, float]) -> list[tuple[str, str]]:
    ordered = sorted(figures.items(), key=lambda entry: -entry[1])
    return [(name, f"{value:,.0f}") for name, value in ordered if value >= 1]


def main(
    only: Annotated[str, typer.Option(help=f"Some of {', '.join(SYSTEMS)}.")] = ",".join(SYSTEMS),
    connections: Annotated[str, typer.Option(help="Connection counts, one step each.")] = "1,8,64,128",
    seconds: scenario.Seconds = 8.0,
    warm_up_seconds: Annotated[float, typer.Option(min=0, help="Load before each step that is not counted.")] = 2.0,
    counted_calls: Annotated[int, typer.Option(min=0, help="Calls of the run that is counted exactly.")] = 20_000,
    baseline_workers: Annotated[int, typer.Option(min=1, help="Worker processes of the hand-written gateway.")] = 2,
) -> dict[str, Any]:
    """Measure billed calls on this machine; takes about five minutes."""
    wanted, numbers, results = scenario.chosen(only, SYSTEMS), scenario.counts(connections), Results()
    console.print(f"load generator: {load.tool()}; steps of {seconds:g} s after {warm_up_seconds:g} s of warm-up")

    def measure(system: System) -> None:
        results.rows += [step(system, number, seconds, warm_up_seconds) for number in numbers]
        if system.balance is not None and counted_calls:
            results.exactness.append(counted(system, counted_calls))

    with systems.upstream() as constant:
        if UPSTREAM in wanted:
            measure(constant)
        starts: dict[str, Callable[[], AbstractContextManager[System]]] = {
            NOOP: systems.noop,
            BASELINE: lambda: systems.baseline(constant.url, baseline_workers),
            GATEWAY: lambda: systems.gateway(constant.url),
        }
        for name, start in starts.items():
            if name in wanted:
                console.print(f"starting [bold]{name}[/bold]")
                with start() as system:
                    measure(system)
    if DEVNODE in wanted or DEVNODE_GATEWAY in wanted:
        console.print(f"starting [bold]{DEVNODE_GATEWAY}[/bold]; idle memory after {_IDLE_SECONDS:.0f} s")
        with systems.gateway(None) as system:
            assert system.product is not None
            time.sleep(_IDLE_SECONDS)
            results.idle_bytes = memory_by_name(system.product.pid, system.product.pids())
            both: Sequence[System] = (systems.devnode_of(system.product), system)
            for one in both:
                if one.name in wanted:
                    measure(one)
    results.show()
    return results.written()


if __name__ == "__main__":
    scenario.run("calls", main, sys.argv[1:])
