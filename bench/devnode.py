"""`python -m bench.devnode`: measures the embedded chain under a Python client, and a hand-written node beside it.

Everything runs on this machine over loopback, and every process is stopped at the end. The exit code is 0 unless a step
failed: a missed target is only reported, because machines differ.
"""

import dataclasses
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, Self

import orjson
import psutil
import typer
import websockets.sync.client
from rich.console import Console
from rich.table import Table

from bench import devnode_figures as meant
from bench.devnode_figures import BASELINE, DEVNODE, JITTER, MEMORY, READS, SENDS, STEPS, TPU, Figures, Load, Row
from bench.processes import cpu_seconds, memory_sum_bytes
from bench.report import machine, show_targets
from bench.systems import free_port, running

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).with_name("results") / "devnode.json"
_MARK = "figures "
_SLOT_MS = 400
_FAST_SLOT_MS = 50  # For the memory step, whose windows are counted in slots and must fill soon.
_RETENTION_SLOTS = 400
_HALF = meant.PER_SECOND_MIN // 2  # Sends a second in steps that do not measure the rate.
_LOAD_SECONDS_MAX = 900
_LOG_COLUMNS = 120  # A file has no width.


@dataclass(frozen=True, slots=True)
class Plan:
    only: tuple[str, ...]
    seconds: float
    connections: int
    jitter_seconds: float
    memory_transactions: int


@dataclass(frozen=True, slots=True)
class System:
    name: str
    url: str
    pid: int
    data_dir: Path
    ws_url: str = ""


class LoadFailed(Exception):
    """The client failed; the text is its own output."""


@contextmanager
def devnode(*flags: str) -> Iterator[System]:
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="devnode-bench-") as folder:
        command = [sys.executable, "-m", "devnode", "--data-dir", folder, "--http-port", str(port)]
        with running([*command, "--ws-port", str(port), *flags], {}, port) as process:
            yield System(DEVNODE, f"http://127.0.0.1:{port}", process.pid, Path(folder), f"ws://127.0.0.1:{port}")


@contextmanager
def baseline() -> Iterator[System]:
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", "bench.devnode_baseline:app", "--port", str(port)]
    with running([*command, "--log-level", "warning", "--no-access-log"], {}, port) as process:
        yield System(BASELINE, f"http://127.0.0.1:{port}", process.pid, ROOT)


@contextmanager
def client(kind: str, url: str, *flags: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "bench.devnode_load", kind, url, *flags]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def seen_by(process: subprocess.Popen[str]) -> dict[str, Any]:
    """Read the figures that the client printed at its end. Raises LoadFailed."""
    output, errors = process.communicate(timeout=_LOAD_SECONDS_MAX)
    for line in output.splitlines():
        if line.startswith(_MARK):
            figures: dict[str, Any] = orjson.loads(line.removeprefix(_MARK))
            return figures
    raise LoadFailed(f"the client ended with {process.returncode}: {(errors or output).strip()[-800:]}")


@dataclass(slots=True)
class Bench:
    """One run: its plan, and its results so far."""

    plan: Plan
    console: Console
    figures: Figures = field(default_factory=Figures)

    def run(self) -> None:
        wanted = self.plan.only
        if READS in wanted or SENDS in wanted:
            for system in (baseline, lambda: devnode("--slot-ms", str(_SLOT_MS))):
                with system() as started:
                    self._rates(started)
        if JITTER in wanted:
            self._jitter()
        if MEMORY in wanted:
            self._memory()
        if TPU in wanted:
            self._tpu()

    def _rates(self, system: System) -> None:
        if READS in self.plan.only:
            self._rate(system, READS, "--seconds", str(self.plan.seconds))
        if SENDS in self.plan.only:
            count = str(int(self.plan.seconds * meant.PER_SECOND_MIN))
            look_up = "--look-up" if system.name == DEVNODE else "--no-look-up"
            self._rate(system, SENDS, "--count", count, "--chunk", count, look_up)

    def _rate(self, system: System, kind: str, *flags: str) -> None:
        before = cpu_seconds((system.pid,))
        with client(kind, system.url, "--connections", str(self.plan.connections), *flags) as process:
            load = self._load(kind, seen_by(process))
        spent = sum(cpu_seconds((system.pid,)).values()) - sum(before.values())
        self.figures = replace(self.figures, rows=(*self.figures.rows, Row(system.name, load, spent)))
        self.console.print(
            f"  {system.name}, {meant.NAMES[kind]}: {load.per_second:,.0f}/s, p50 {load.latency_p50_ms:.2f} ms, "
            f"p99 {load.latency_p99_ms:.2f} ms, {load.errors} errors"
        )

    def _load(self, kind: str, seen: dict[str, Any]) -> Load:
        return Load(kind=kind, connections=self.plan.connections, **seen)

    def _jitter(self) -> None:
        count = str(int(_HALF * self.plan.jitter_seconds))
        with devnode("--slot-ms", str(_SLOT_MS)) as system:
            flags = ("--count", count, "--chunk", count, "--rate", str(_HALF), "--no-look-up")
            with client(SENDS, system.url, *flags) as process:
                assert process.stdout is not None
                if process.stdout.readline() != "sending\n":
                    seen_by(process)
                with Slots(system.ws_url) as slots:
                    load = self._load(SENDS, seen_by(process))
        self.figures = replace(self.figures, jitter=meant.jitter_of(load, slots.opened_ms, _SLOT_MS))

    def _memory(self) -> None:
        """Measure memory at a constant rate:

        records are kept for a number of slots, so a rising rate looks like growth.
        """
        flags = ("--slot-ms", str(_FAST_SLOT_MS), "--retention-slots", str(_RETENTION_SLOTS))
        load_flags = ("--count", str(self.plan.memory_transactions), "--chunk", "2500", "--rate", str(_HALF))
        with devnode(*flags) as system, client(SENDS, system.url, *load_flags) as process:
            samples: list[int] = []
            while process.poll() is None:
                samples.append(memory_sum_bytes((system.pid,)))
                time.sleep(1)
            load = self._load(SENDS, seen_by(process))
            disk = sum(path.stat().st_size for path in system.data_dir.rglob("*") if path.is_file())
        self.figures = replace(self.figures, memory=meant.Memory(load, tuple(samples), disk))

    def _tpu(self) -> None:
        flags = ("--count", str(meant.TPU_TRANSACTIONS))
        with (
            devnode("--slot-ms", str(_SLOT_MS), "--leaders", "1") as system,
            client(TPU, system.url, *flags) as process,
        ):
            seen = seen_by(process)
        if "absent" in seen:
            self.figures = replace(self.figures, skipped=(*self.figures.skipped, "tpu: this node has no TPU door"))
        else:
            self.figures = replace(self.figures, tpu=meant.Tpu(**seen))


class Slots:
    """Records when the node opened its slots, while a `with` block runs."""

    def __init__(self, ws_url: str) -> None:
        self._ws_url, self._opened = ws_url, ExitStack()
        self.opened_ms: list[int] = []

    def __enter__(self) -> Self:
        socket = self._opened.enter_context(websockets.sync.client.connect(self._ws_url))
        socket.send('{"jsonrpc":"2.0","id":1,"method":"slotsUpdatesSubscribe"}')
        socket.recv()
        threading.Thread(target=self._listen, args=(socket,), daemon=True).start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._opened.close()

    def _listen(self, socket: websockets.sync.client.ClientConnection) -> None:
        for text in socket:  # Until the connection is closed.
            update = orjson.loads(text)["params"]["result"]
            if update["type"] == "createdBank":
                self.opened_ms.append(update["timestamp"])


def show(console: Console, figures: Figures) -> None:
    if figures.rows:
        table = Table(title="Calls of a Python client on the same machine, one in flight a connection")
        table.add_column("system")
        table.add_column("method")
        for heading in ("conns", "calls/s", "p50 ms", "p99 ms", "errors", "CPU µs a call"):
            table.add_column(heading, justify="right")
        for row in figures.rows:
            load = row.load
            numbers = (f"{load.connections}", f"{load.per_second:,.0f}", f"{load.latency_p50_ms:.2f}")
            more = (f"{load.latency_p99_ms:.2f}", f"{load.errors:,}", f"{row.cpu_us_per_call:,.0f}")
            table.add_row(row.system, meant.NAMES[load.kind], *numbers, *more)
        console.print(table)
    if figures.jitter is not None:
        found = figures.jitter
        console.print(
            f"slots at {found.load.per_second:,.0f} sends/s: {found.slots} slots of {_SLOT_MS} ms, off by p50 "
            f"{found.p50_ms:.0f} ms, p99 {found.p99_ms:.0f} ms, at most {found.max_ms:.0f} ms"
        )
    if figures.memory is not None:
        kept = figures.memory
        console.print(
            f"memory over {kept.load.answered:,} transactions ({kept.load.per_second:,.0f}/s, {_RETENTION_SLOTS} slots "
            f"kept): {kept.samples_bytes[0] / 1e6:,.0f} MB at first, {max(kept.samples_bytes) / 1e6:,.0f} at most, "
            f"{kept.samples_bytes[-1] / 1e6:,.0f} at the end; {kept.disk_bytes / 1e6:,.0f} MB on disk"
        )
    for reason in figures.skipped:
        console.print(f"[yellow]skipped[/yellow] {reason}")
    show_targets(console, meant.verdicts(figures))


def write(path: Path, plan: Plan, figures: Figures, busy_percent: float) -> None:
    content = {
        "machine": machine(),
        "settings": {**dataclasses.asdict(plan), "busy_percent_before": busy_percent},
        **dataclasses.asdict(figures),
        "targets": [dataclasses.asdict(verdict) for verdict in meant.verdicts(figures)],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(orjson.dumps(content, option=orjson.OPT_INDENT_2))


def _steps(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names or not set(names) <= set(STEPS):
        raise typer.BadParameter(f"wanted some of {', '.join(STEPS)}")
    return names


def main(
    only: Annotated[str, typer.Option(help=f"Some of {', '.join(STEPS)}.")] = ",".join(STEPS),
    seconds: Annotated[float, typer.Option(min=0.5, help="Length of the rate steps, about.")] = 5.0,
    connections: Annotated[int, typer.Option(min=1, help="Connections of the client.")] = 64,
    jitter_seconds: Annotated[float, typer.Option(min=2, help="Length of the jitter step.")] = 20.0,
    memory_transactions: Annotated[int, typer.Option(min=1_000, help="Transactions of the memory step.")] = 100_000,
    results: Annotated[Path, typer.Option(help="Where the figures are written as JSON.")] = RESULTS,
) -> None:
    """Measure the embedded chain on this machine; takes about three minutes."""
    plan = Plan(_steps(only), seconds, connections, jitter_seconds, memory_transactions)
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = max(console.width, _LOG_COLUMNS)
    signal.signal(signal.SIGTERM, _stop)  # As an interrupt, so that all processes are stopped.
    busy_percent = psutil.cpu_percent(interval=1)
    console.print(f"{psutil.cpu_count()} cores, {busy_percent:.0f} % busy with other work before the run")
    bench = Bench(plan, console)
    try:
        bench.run()
    except (LoadFailed, ChildProcessError) as error:
        console.print(f"[red]Broke:[/red] {error}", markup=True)
        raise typer.Exit(1) from None
    show(console, bench.figures)
    write(results, plan, bench.figures, busy_percent)
    console.print(f"figures: {results}   how to read them: bench/README.md")


def _stop(_number: int, _frame: FrameType | None) -> None:
    sys.exit("stopped")


if __name__ == "__main__":
    typer.run(main)
