"""`python -m bench.calls`: measures billed calls through the product, the upstream alone and a hand-written gateway.

Everything runs on this machine over loopback, and every process is stopped at the end. The exit code is 0 unless a step
failed: a missed target is only reported, because machines differ.
"""

import signal
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Annotated

import psutil
import typer
from rich.console import Console

from bench import figures, load, report, systems
from bench.figures import BASELINE, DEVNODE, DEVNODE_GATEWAY, GATEWAY, NOOP, SYSTEMS, UPSTREAM, Exactness, Load, Row
from bench.processes import MemoryWatch, cpu_seconds, cpu_spent, memory_by_name, memory_sum_bytes
from bench.product import ProductFailed
from bench.systems import System

RESULTS = Path(__file__).with_name("results") / "calls.json"
_IDLE_SECONDS = 5.0
_LOOK_SECONDS = 2.0
_BUSY_PERCENT_MAX = 10.0
_COUNTED_CONNECTIONS = 64
_LOG_COLUMNS = 120  # A file has no width.


@dataclass(frozen=True, slots=True)
class Plan:
    only: tuple[str, ...]
    connections: tuple[int, ...]
    seconds: float
    warm_up_seconds: float
    counted_calls: int
    baseline_workers: int


@dataclass(slots=True)
class Bench:
    """One run: its plan, and its results so far."""

    plan: Plan
    console: Console
    rows: list[Row] = field(default_factory=list)
    exactness: list[Exactness] = field(default_factory=list)
    idle_bytes: dict[str, int] | None = None
    busy_percent: float = 0.0  # Of all cores, before the first process starts.

    def run(self) -> None:
        self.busy_percent = psutil.cpu_percent(interval=_LOOK_SECONDS)
        if self.busy_percent > _BUSY_PERCENT_MAX:
            self.console.print(
                f"[yellow]This machine is {self.busy_percent:.0f} % busy with other work: "
                "the figures will be worse than it can do.[/yellow]"
            )
        wanted = self.plan.only
        with systems.upstream() as constant:
            if UPSTREAM in wanted:
                self.measure(constant)
            if NOOP in wanted:
                with self._started(NOOP) as stack:
                    self.measure(stack.enter_context(systems.noop()))
            if BASELINE in wanted:
                with self._started(BASELINE) as stack:
                    self.measure(stack.enter_context(systems.baseline(constant.url, self.plan.baseline_workers)))
            if GATEWAY in wanted:
                with self._started(GATEWAY) as stack:
                    self.measure(stack.enter_context(systems.gateway(constant.url)))
        if DEVNODE in wanted or DEVNODE_GATEWAY in wanted:
            with self._started(DEVNODE_GATEWAY) as stack:
                self._measure_devnode(stack.enter_context(systems.gateway(None)))

    def _measure_devnode(self, system: System) -> None:
        assert system.product is not None
        self.console.print(f"  idle memory, after {_IDLE_SECONDS:.0f} s")
        time.sleep(_IDLE_SECONDS)
        self.idle_bytes = memory_by_name(system.product.pid, system.product.pids())
        if DEVNODE in self.plan.only:
            self.measure(systems.devnode_of(system.product))
        if DEVNODE_GATEWAY in self.plan.only:
            self.measure(system)

    @contextmanager
    def _started(self, name: str) -> Iterator[ExitStack]:
        self.console.print(f"starting [bold]{name}[/bold]")
        with ExitStack() as stack:
            yield stack

    def measure(self, system: System) -> None:
        """Run every step of the plan on one running system, then the counted run."""
        for connections in self.plan.connections:
            row = self._step(system, connections)
            self.rows.append(row)
            seen = row.load
            self.console.print(
                f"  {system.name}, {connections} connections: {seen.per_second:,.0f} calls/s, "
                f"p50 {seen.latency_p50_ms:.2f} ms, p99 {seen.latency_p99_ms:.2f} ms, {seen.errors} errors"
            )
        if system.balance is not None and self.plan.counted_calls:
            run = self._counted(system)
            self.exactness.append(run)
            self.console.print(f"  {system.name}, {run.answered:,} counted calls: credits off by {run.off_by}")

    def _step(self, system: System, connections: int) -> Row:
        if self.plan.warm_up_seconds:
            load.timed(system.url, system.api_key, connections, self.plan.warm_up_seconds)
        balance_before = systems.settled_balance(system)
        cpu_before = cpu_seconds(system.pids())
        with MemoryWatch(lambda: memory_sum_bytes(system.pids())) as memory:
            seen = load.timed(system.url, system.api_key, connections, self.plan.seconds)
            names = {} if system.product is None else system.product.pids()
            spent = cpu_spent(cpu_before, cpu_seconds(system.pids()), names)
        debited = _debited(balance_before, systems.settled_balance(system))
        return Row(system.name, seen, spent, memory.bytes_max, debited)

    def _counted(self, system: System) -> Exactness:
        before = systems.settled_balance(system)
        seen: Load = load.counted(system.url, system.api_key, _COUNTED_CONNECTIONS, self.plan.counted_calls)
        debited = _debited(before, systems.settled_balance(system))
        assert debited is not None
        return Exactness(system.name, seen.answered, seen.errors, debited, self._audit(system))

    def _audit(self, system: System) -> bool | None:
        if system.product is None:
            return None
        done = system.product.audit()
        if done.returncode != 0:
            self.console.print(done.stdout + done.stderr, markup=False)
        return done.returncode == 0


def _debited(before: int | None, after: int | None) -> int | None:
    return None if before is None or after is None else before - after


def _systems(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names or not set(names) <= set(SYSTEMS):
        raise typer.BadParameter(f"wanted some of {', '.join(SYSTEMS)}")
    return names


def _counts(text: str) -> tuple[int, ...]:
    try:
        found = tuple(sorted({int(part) for part in text.split(",")}))
    except ValueError:
        raise typer.BadParameter("wanted numbers such as 1,64") from None
    if found[0] < 1:
        raise typer.BadParameter("a connection count is at least 1")
    return found


def main(
    only: Annotated[str, typer.Option(help=f"Some of {', '.join(SYSTEMS)}.")] = ",".join(SYSTEMS),
    connections: Annotated[str, typer.Option(help="Connection counts, one step each.")] = "1,8,64,128",
    seconds: Annotated[float, typer.Option(min=0.5, help="Length of a step.")] = 8.0,
    warm_up_seconds: Annotated[float, typer.Option(min=0, help="Load before each step that is not counted.")] = 2.0,
    counted_calls: Annotated[int, typer.Option(min=0, help="Calls of the run that is counted exactly.")] = 20_000,
    baseline_workers: Annotated[int, typer.Option(min=1, help="Worker processes of the hand-written gateway.")] = 2,
    results: Annotated[Path, typer.Option(help="Where the figures are written as JSON.")] = RESULTS,
) -> None:
    """Measure billed calls on this machine; takes about five minutes."""
    plan = Plan(_systems(only), _counts(connections), seconds, warm_up_seconds, counted_calls, baseline_workers)
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = max(console.width, _LOG_COLUMNS)
    bench = Bench(plan, console)
    signal.signal(signal.SIGTERM, _stop)  # As an interrupt, so that all processes are stopped.
    console.print(f"load generator: {load.tool()}; steps of {seconds:g} s after {warm_up_seconds:g} s of warm-up")
    try:
        bench.run()
    except (ProductFailed, load.LoadFailed, ChildProcessError) as error:
        console.print("[red]Broke:[/red]", end=" ")
        console.print(str(error), markup=False)
        raise typer.Exit(1) from None
    _show(bench, results)


def _show(bench: Bench, results: Path) -> None:
    console = bench.console
    report.show_rows(console, bench.rows)
    report.show_cpu(console, bench.rows)
    report.show_comparisons(console, bench.rows)
    report.show_exactness(console, bench.exactness)
    report.show_idle(console, bench.idle_bytes)
    report.show_targets(console, figures.verdicts(bench.rows, bench.exactness, bench.idle_bytes))
    plan = bench.plan
    settings = {
        "seconds": plan.seconds,
        "warm_up_seconds": plan.warm_up_seconds,
        "counted_calls": plan.counted_calls,
        "baseline_workers": plan.baseline_workers,
        "busy_percent_before": bench.busy_percent,
    }
    report.write(results, bench.rows, bench.exactness, bench.idle_bytes, settings)
    console.print(f"figures: {results}   how to read them: bench/README.md")


def _stop(_number: int, _frame: FrameType | None) -> None:
    sys.exit("stopped")


if __name__ == "__main__":
    typer.run(main)
