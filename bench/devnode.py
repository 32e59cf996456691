"""Measures the embedded chain under a Python client, and a hand-written node (devnode_baseline.py) beside it."""

import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, Self

import orjson
import typer
import websockets.sync.client

from bench import scenario
from bench.chain import Chain, devnode
from bench.figures import Load, percentile
from bench.load import LoadFailed
from bench.processes import cpu_seconds, memory_sum_bytes
from bench.product import ROOT
from bench.scenario import Target, at_least, at_most
from bench.systems import free_port, running

READS, SENDS, JITTER, MEMORY, TPU = "reads", "sends", "jitter", "memory", "tpu"
STEPS = (READS, SENDS, JITTER, MEMORY, TPU)
METHODS = {READS: "getAccountInfo", SENDS: "sendTransaction"}
_MARK = "figures "
_PER_SECOND_MIN = 3_000
_PACED = _PER_SECOND_MIN // 2  # Sends a second in steps that do not measure the rate.
_TPU_TRANSACTIONS = 1_000
_SLOT_MS = 400
# The windows of the memory step are counted in slots, and must be full soon.
_SHORT_SLOTS = ("--slot-ms", "50", "--retention-slots", "400")
_LOAD_SECONDS_MAX = 900


@dataclass(frozen=True, slots=True)
class Row:
    """landed None: not checked."""

    system: str
    kind: str
    load: Load
    cpu_us_per_call: float  # Of the system alone.
    landed: int | None = None


@contextmanager
def baseline() -> Iterator[Chain]:
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", "bench.devnode_baseline:app", "--port", str(port)]
    with running([*command, "--log-level", "warning", "--no-access-log"], {}, port) as process:
        yield Chain(f"http://127.0.0.1:{port}", "", process.pid, ROOT)


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


def rate(name: str, chain: Chain, kind: str, connections: int, *flags: str) -> Row:
    before = sum(cpu_seconds((chain.pid,)).values())
    with client(kind, chain.url, "--connections", str(connections), *flags) as process:
        seen = seen_by(process)
    spent = sum(cpu_seconds((chain.pid,)).values()) - before
    landed = seen.pop("landed", None)
    load = Load("python", connections, **seen)
    return Row(name, kind, load, spent * 1e6 / max(1, load.answered), landed)


def rates(kinds: Sequence[str], seconds: float, connections: int) -> list[Row]:
    """Measure reads and sends of the baseline, then those of the embedded chain."""
    rows = []
    count = str(int(seconds * _PER_SECOND_MIN))
    for name, start, look_up in (
        ("baseline", baseline, "--no-look-up"),
        ("devnode", lambda: devnode("--slot-ms", str(_SLOT_MS)), "--look-up"),
    ):
        flags = {READS: ("--seconds", str(seconds)), SENDS: ("--count", count, "--chunk", count, look_up)}
        with start() as chain:
            rows += [rate(name, chain, kind, connections, *flags[kind]) for kind in flags if kind in kinds]
    headings = ("system, method", "conns", "calls/s", "p50 ms", "p99 ms", "errors", "CPU µs a call", "not landed")
    table = []
    for row in rows:
        seen, missing = row.load, None if row.landed is None else row.load.answered - row.landed
        figures = (f"{seen.per_second:,.0f}", seen.latency_p50_ms, seen.latency_p99_ms, seen.errors)
        name = f"{row.system}, {METHODS[row.kind]}"
        table.append((name, seen.connections, *figures, f"{row.cpu_us_per_call:,.0f}", missing))
    scenario.show("Calls of a Python client on the same machine, one in flight a connection", headings, table)
    return rows


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
        for text in socket:  # Until the connection closes.
            update = orjson.loads(text)["params"]["result"]
            if update["type"] == "createdBank":
                self.opened_ms.append(update["timestamp"])


def off_by_ms(opened_ms: Sequence[int], slot_ms: int) -> list[float]:
    """Return how far each distance between two slots is from a slot's length. opened_ms: by the node's own clock."""
    return [float(abs(second - first - slot_ms)) for first, second in pairwise(opened_ms)]


def jitter(seconds: float) -> dict[str, float]:
    count = str(int(_PACED * seconds))
    with devnode("--slot-ms", str(_SLOT_MS)) as chain:
        flags = ("--count", count, "--chunk", count, "--rate", str(_PACED), "--no-look-up")
        with client(SENDS, chain.url, *flags) as process:
            assert process.stdout is not None
            if process.stdout.readline() != "sending\n":
                seen_by(process)
            with Slots(chain.ws_url) as slots:
                seen = seen_by(process)
    off = off_by_ms(slots.opened_ms, _SLOT_MS)
    found = {"sends/s": seen["answered"] / seen["seconds"], "slots": len(slots.opened_ms)}
    found |= {"p50_ms": percentile(off, 50), "p99_ms": percentile(off, 99), "max_ms": max(off)}
    scenario.show_figures(f"distance of two slots of {_SLOT_MS} ms, off by", found)
    return found


def growth_percent(samples: Sequence[int]) -> float:
    """Compare the largest sample of the last fifth with that of the middle fifth, when every window is full."""
    fifth = max(1, len(samples) // 5)
    middle = max(samples[2 * fifth : 3 * fifth] or samples)
    return (max(samples[-fifth:]) - middle) * 100 / middle


def memory(transactions: int) -> dict[str, float]:
    """Measure memory at a constant rate. Records are kept for a number of slots, so a rising rate looks like growth."""
    flags = ("--count", str(transactions), "--chunk", "2500", "--rate", str(_PACED))
    samples: list[int] = []
    with devnode(*_SHORT_SLOTS) as chain, client(SENDS, chain.url, *flags) as process:
        while process.poll() is None:
            samples.append(memory_sum_bytes((chain.pid,)))
            time.sleep(1)
        seen = seen_by(process)
        disk = sum(path.stat().st_size for path in chain.data_dir.rglob("*") if path.is_file())
    found = {
        "transactions": seen["answered"],
        "landed": seen["landed"],
        "MB at first": samples[0] / 1e6,
        "MB at most": max(samples) / 1e6,
        "MB at the end": samples[-1] / 1e6,
        "growth percent": growth_percent(samples),
        "MB on disk": disk / 1e6,
    }
    scenario.show_figures("memory over many transactions", found)
    return found


def tpu() -> dict[str, float]:
    flags = ("--count", str(_TPU_TRANSACTIONS))
    with devnode("--slot-ms", str(_SLOT_MS), "--leaders", "1") as chain, client(TPU, chain.url, *flags) as process:
        found: dict[str, float] = seen_by(process)
    scenario.show_figures("transactions over QUIC", found)
    return found


def targets(figures: dict[str, Any]) -> list[Target]:
    rows: list[Row] = [row for row in figures.get("rates", ()) if row.system == "devnode"]
    by_kind = {row.kind: row for row in rows}
    found = []
    for kind, method in METHODS.items():
        row = by_kind.get(kind)
        found.append(at_least(f"{method}/s", _PER_SECOND_MIN, row.load.per_second if row else None))
    sends = by_kind.get(SENDS)
    missing = None if sends is None or sends.landed is None else sends.load.answered - sends.landed
    found.append(at_most("answered sends that did not land", 0, missing))
    found.append(at_most(f"slot jitter p99, ms, at {_PACED:,} sends/s", 50, figures.get(JITTER, {}).get("p99_ms")))
    grown = figures.get(MEMORY, {}).get("growth percent")
    found.append(at_most("memory growth over the second half, %", 5, grown, "{:.1f}"))
    landed = figures.get(TPU, {}).get("landed")
    found.append(at_least(f"TPU: of {_TPU_TRANSACTIONS:,} transactions land", _TPU_TRANSACTIONS, landed))
    return found


def main(
    only: Annotated[str, typer.Option(help=f"Some of {', '.join(STEPS)}.")] = ",".join(STEPS),
    seconds: scenario.Seconds = 5.0,
    connections: scenario.Connections = 64,
    jitter_seconds: Annotated[float, typer.Option(min=2, help="Length of the jitter step.")] = 20.0,
    memory_transactions: Annotated[int, typer.Option(min=1_000, help="Transactions of the memory step.")] = 100_000,
) -> dict[str, Any]:
    """Measure the embedded chain on this machine; takes about three minutes."""
    wanted, found = scenario.chosen(only, STEPS), dict[str, Any]()
    if READS in wanted or SENDS in wanted:
        found["rates"] = rates(wanted, seconds, connections)
    if JITTER in wanted:
        found[JITTER] = jitter(jitter_seconds)
    if MEMORY in wanted:
        found[MEMORY] = memory(memory_transactions)
    if TPU in wanted:
        found[TPU] = tpu()
    scenario.show_targets(targets(found))

    return found | {"targets": targets(found)}
