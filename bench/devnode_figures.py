"""The figures of each measurement of the embedded chain, and their targets.

Pure: no clock, no I/O. Not here: taking the measurements (devnode.py, devnode_load.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from bench.figures import Verdict

DEVNODE, BASELINE = "devnode", "baseline"
READS, SENDS, JITTER, MEMORY, TPU = "reads", "sends", "jitter", "memory", "tpu"
STEPS = (READS, SENDS, JITTER, MEMORY, TPU)
NAMES = {READS: "getAccountInfo", SENDS: "sendTransaction"}

PER_SECOND_MIN = 3_000
JITTER_P99_MS_MAX = 50.0
GROWTH_PERCENT_MAX = 5.0
TPU_TRANSACTIONS = 1_000


@dataclass(frozen=True, slots=True)
class Load:
    """The Python client's figures. landed None: not checked."""

    kind: str
    connections: int
    seconds: float  # Without making and signing the transactions.
    answered: int
    errors: int
    latency_p50_ms: float
    latency_p99_ms: float
    landed: int | None = None

    @property
    def per_second(self) -> float:
        return self.answered / self.seconds if self.seconds else 0.0


@dataclass(frozen=True, slots=True)
class Row:
    system: str
    load: Load
    cpu_seconds: float  # Of the system alone.

    @property
    def cpu_us_per_call(self) -> float:
        return self.cpu_seconds * 1e6 / self.load.answered if self.load.answered else 0.0


@dataclass(frozen=True, slots=True)
class Jitter:
    """How far the time between two slots was from the slot length."""

    load: Load
    slots: int
    p50_ms: float
    p99_ms: float
    max_ms: float


@dataclass(frozen=True, slots=True)
class Memory:
    load: Load
    samples_bytes: tuple[int, ...]  # One a second, from the first transaction to the last.
    disk_bytes: int

    @property
    def growth_percent(self) -> float:
        """Compare the largest sample of the last fifth with that of the middle fifth, when every window is full."""
        fifth = max(1, len(self.samples_bytes) // 5)
        middle = max(self.samples_bytes[2 * fifth : 3 * fifth] or self.samples_bytes)
        return (max(self.samples_bytes[-fifth:]) - middle) * 100 / middle


@dataclass(frozen=True, slots=True)
class Tpu:
    sent: int
    landed: int
    seconds: float  # From the first stream to the last landing seen.


@dataclass(frozen=True, slots=True)
class Figures:
    rows: Sequence[Row] = ()
    jitter: Jitter | None = None
    memory: Memory | None = None
    tpu: Tpu | None = None
    skipped: Sequence[str] = ()  # The reason why a requested step was not measured.


def jitter_of(load: Load, opened_ms: Sequence[int], slot_ms: int) -> Jitter:
    """Compute the jitter. opened_ms: when the node opened each slot, by its own clock; at least two."""
    off = sorted(abs(second - first - slot_ms) for first, second in pairwise(opened_ms))
    assert off, "two slots make one distance"

    def at(percent: int) -> float:
        return float(off[min(len(off) - 1, len(off) * percent // 100)])

    return Jitter(load, len(opened_ms), at(50), at(99), float(off[-1]))


def verdicts(figures: Figures) -> tuple[Verdict, ...]:
    """Compare each target with its measured value."""
    found = [_rate(figures.rows, READS), _rate(figures.rows, SENDS), _landed(figures.rows)]
    jitter, memory, tpu = figures.jitter, figures.memory, figures.tpu
    found.append(
        Verdict(
            f"slot jitter p99, ms, at {PER_SECOND_MIN // 2:,} sends/s",
            f"< {JITTER_P99_MS_MAX:g}",
            "not measured" if jitter is None else f"{jitter.p99_ms:.0f}",
            None if jitter is None else jitter.p99_ms < JITTER_P99_MS_MAX,
        )
    )
    found.append(
        Verdict(
            "memory growth over the second half, %",
            f"<= {GROWTH_PERCENT_MAX:g}",
            "not measured" if memory is None else f"{memory.growth_percent:.1f}",
            None if memory is None else memory.growth_percent <= GROWTH_PERCENT_MAX,
        )
    )
    found.append(
        Verdict(
            f"TPU: of {TPU_TRANSACTIONS:,} transactions land",
            "all",
            "not measured" if tpu is None else f"{tpu.landed:,} in {tpu.seconds:.2f} s",
            None if tpu is None else tpu.landed == tpu.sent,
        )
    )
    return tuple(found)


def _rate(rows: Sequence[Row], kind: str) -> Verdict:
    row = next((row for row in rows if row.system == DEVNODE and row.load.kind == kind), None)
    wanted = f">= {PER_SECOND_MIN:,}"
    if row is None:
        return Verdict(f"{NAMES[kind]}/s", wanted, "not measured", None)
    return Verdict(f"{NAMES[kind]}/s", wanted, f"{row.load.per_second:,.0f}", row.load.per_second >= PER_SECOND_MIN)


def _landed(rows: Sequence[Row]) -> Verdict:
    """Check that every answered send has landed; otherwise the rate means nothing."""
    row = next((row for row in rows if row.load.landed is not None), None)
    if row is None or row.load.landed is None:
        return Verdict("answered sends that did not land", "0", "not measured", None)
    missing = row.load.answered - row.load.landed
    return Verdict("answered sends that did not land", "0", f"{missing:,}", missing == 0)
