"""Measures a local run that nobody uses: seconds to its readiness, and then processor, memory and wake-ups by part.

The product starts on a fresh folder, with the settings of `python serve_app.py`, and is left alone. First it settles:
the first minute has the demo account's start in it. Then processor time and context switches are read twice, `seconds`
apart, and memory once after that. Of each start also the processor time of all processes is told: on a machine that is
busy with other work it is what can be compared. A context switch that a process made by itself is a wake-up: it
waited, and had something to do. Processes of one kind are one part. Memory is told twice: shared pages divided among
the processes that share them (the parts' sum is what the run takes), and the resident size of each process.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import Annotated, Any

import psutil
import typer

from bench import scenario
from bench.processes import cpu_seconds, cpu_spent_by_kind, memory_bytes, tree
from bench.product import Product, free_ports
from bench.scenario import Target, at_most, console, show
from bench.systems import temporary_folder

CPU_PERCENT_MAX, MEMORY_MB_MAX, READY_SECONDS_MAX = 5.0, 1_300.0, 12.0
_MB = 1_000_000
OTHER = "other"
# Of each part: how a command line of it begins, or words in it. The first that fits counts.
MARKS: tuple[tuple[str, str], ...] = (
    ("replicas", "ray::ServeReplica"),
    ("account owners", "ray::AccountShard"),
    ("Serve controller", "ray::ServeController"),
    ("Serve proxies", "ray::HAProxyManager"),
    ("Serve proxies", "ray::ProxyActor"),
    ("idle workers", "ray::IDLE"),
    ("Ray agents", "ray::RuntimeEnvAgent"),
    ("Ray agents", "ray::DashboardAgent"),
    ("small actors", "ray::"),
    ("HAProxy", "haproxy.cfg"),
    ("Ray GCS", "gcs_server"),
    ("raylet", "raylet/raylet"),
    ("Ray agents", "agent_stand_in.py"),  # After the raylet, whose command names it.
    ("Ray agents", "log_monitor"),
    ("Ray agents", "runtime_env"),
    ("Ray agents", "dashboard"),
    ("Ray agents", "autoscaler"),
    ("Redis", "redis-server"),
    ("PostgreSQL", "postgres"),
    ("devnode", "devnode"),
    ("supervisor", "supervisor_process"),
    ("launcher", "serve_app.py"),
)
PARTS = (*dict.fromkeys(part for part, _ in MARKS), OTHER)


@dataclass(frozen=True, slots=True)
class Rest:
    """Use of one part: processor in per cent of one core, wake-ups a second, memory in MB."""

    processes: int
    cpu_percent: float
    wake_ups_per_second: float
    shared_out_mb: float
    resident_mb: float


def part_of(line: str) -> str:
    """Return the part of a process with this command line."""
    return next((part for part, mark in MARKS if mark in line), OTHER)


def parts_of(pid: int) -> dict[int, str]:
    """Return the part of each process below this one by process id."""
    found = {}
    for process in tree(pid):
        try:
            found[process.pid] = part_of(" ".join(process.cmdline()))
        except psutil.Error:
            continue
    return found


def wake_ups(pids: Iterable[int]) -> dict[int, int]:
    """Return how often the threads of each process have waited so far. Linux only: elsewhere it is empty."""
    found = {}
    for pid in pids:
        try:
            threads = [path.read_text(encoding="ascii") for path in Path(f"/proc/{pid}/task").glob("*/status")]
        except OSError:
            continue
        lines = (line for text in threads for line in text.splitlines() if line.startswith("voluntary_ctxt"))
        found[pid] = sum(int(line.split()[1]) for line in lines)
    return found


def by_part(figures: Mapping[int, float], parts: Mapping[int, str]) -> dict[str, float]:
    found = dict.fromkeys(PARTS, 0.0)
    for pid, value in figures.items():
        found[parts.get(pid, OTHER)] += value
    return found


def at_rest(pid: int, seconds: float) -> dict[str, Rest]:
    """Watch the processes below this one for so long. Returns each part that has a process."""
    before, woken, began = cpu_seconds((pid,)), wake_ups(parts_of(pid)), monotonic()
    sleep(seconds)
    after, parts = cpu_seconds((pid,)), parts_of(pid)
    passed = monotonic() - began
    spent = cpu_spent_by_kind(before, after, parts)
    woken = {of: count - woken.get(of, 0) for of, count in wake_ups(parts).items()}
    running = [process for process in tree(pid) if process.pid in parts]
    memory = by_part({process.pid: memory_bytes(process) for process in running}, parts)
    resident = by_part({process.pid: _resident(process) for process in running}, parts)
    counts, waited = Counter(parts.values()), by_part(woken, parts)
    return {
        part: Rest(
            counts[part],
            100 * spent.get(part, 0.0) / passed,
            waited[part] / passed,
            memory[part] / _MB,
            resident[part] / _MB,
        )
        for part in PARTS
        if counts[part]
    }


def _resident(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.Error:
        return 0


def total(parts: Iterable[Rest]) -> Rest:
    rows = list(parts)
    return Rest(
        sum(row.processes for row in rows),
        sum(row.cpu_percent for row in rows),
        sum(row.wake_ups_per_second for row in rows),
        sum(row.shared_out_mb for row in rows),
        sum(row.resident_mb for row in rows),
    )


def targets_of(whole: Rest, ready_seconds: float) -> list[Target]:
    return [
        at_most("processor at rest, % of one core", CPU_PERCENT_MAX, whole.cpu_percent, "{:.1f}"),
        at_most("memory at rest, MB", MEMORY_MB_MAX, whole.shared_out_mb),
        at_most("ready, s", READY_SECONDS_MAX, ready_seconds, "{:.1f}"),
    ]


def settings_in(texts: Iterable[str]) -> dict[str, str]:
    """Read the values of --set. Raises BadParameter."""
    found = {}
    for text in texts:
        name, is_given, value = text.partition("=")
        if not is_given or not name:
            raise typer.BadParameter(f"wanted NAME=VALUE, not {text!r}")
        found[name] = value
    return found


def started_in(product: Product) -> float:
    """Start the product. Returns the seconds until it was ready."""
    began = monotonic()
    product.start()
    return monotonic() - began


def main(
    seconds: Annotated[float, typer.Option(min=1, help="For how long the run at rest is watched.")] = 60.0,
    settle_seconds: Annotated[float, typer.Option(min=0, help="From readiness until it is watched.")] = 60.0,
    starts: Annotated[int, typer.Option(min=1, help="How often it starts; all but the first find data.")] = 1,
    set_: Annotated[list[str] | None, typer.Option("--set", help="NAME=VALUE: a setting of the product.")] = None,
) -> dict[str, Any]:
    """Start the product on a fresh folder, leave it alone, and measure it."""
    ready, spent = [], []
    with temporary_folder() as folder:
        product = Product(folder / "data", settings_in(set_ or ()), free_ports())
        try:
            for _ in range(starts):
                product.stop()
                ready.append(started_in(product))
                spent.append(sum(cpu_seconds((product.pid,)).values()))
                console.print(f"  ready after {ready[-1]:.1f} s and {spent[-1]:.1f} s of a processor")
            sleep(settle_seconds)
            parts = at_rest(product.pid, seconds)
            product.stop()
        except BaseException:
            product.kill()
            raise
    whole = total(parts.values())
    headings = ("part", "processes", "% of a core", "wake-ups/s", "memory, MB", "resident, MB")
    rows = [(name, *asdict(row).values()) for name, row in [*parts.items(), ("all", whole)]]
    show("A local run at rest", headings, rows)
    scenario.show_targets(targets_of(whole, ready[0]))
    return {
        "ready_seconds": ready,
        "ready_processor_seconds": spent,
        "parts": {name: asdict(row) for name, row in parts.items()},
        "all": asdict(whole),
    }
