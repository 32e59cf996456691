"""Figures of a step, comparisons between systems, and the targets.

Pure: no clock, no I/O. Not here: measuring (load.py, processes.py) and showing (report.py).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

UPSTREAM, NOOP, GATEWAY, BASELINE = "upstream", "noop", "gateway", "baseline"
DEVNODE, DEVNODE_GATEWAY = "devnode", "devnode-gateway"
SYSTEMS = (UPSTREAM, NOOP, BASELINE, GATEWAY, DEVNODE, DEVNODE_GATEWAY)

PRICE_CREDITS = 1  # getSlot: READ_CHEAP.
_RATIO_MIN = 5.0
_PER_SECOND_MIN = 3_500
_P99_MS_MAX = 100.0
_ADDED_MS_MAX = {1: 2.5, 8: 6.0}
_IDLE_BYTES_MAX = 1_500_000_000


@dataclass(frozen=True, slots=True)
class Load:
    """A generator's figures. answered: calls with status 2xx; errors: all others, broken connections included."""

    tool: str
    connections: int
    seconds: float
    answered: int
    errors: int
    latency_p50_ms: float
    latency_p99_ms: float

    @property
    def per_second(self) -> float:
        return self.answered / self.seconds if self.seconds else 0.0


@dataclass(frozen=True, slots=True)
class Row:
    """One step on one system. debited_credits None: a system without accounts."""

    system: str
    load: Load
    cpu_seconds_by_name: Mapping[str, float]  # All processes of the system, generator and upstream excluded.
    memory_bytes_max: int  # Sum of proportional set sizes, largest seen.
    debited_credits: int | None

    @property
    def cpu_seconds(self) -> float:
        return sum(self.cpu_seconds_by_name.values())

    @property
    def cpu_seconds_per_1000(self) -> float:
        return self.cpu_seconds * 1000 / self.load.answered if self.load.answered else 0.0


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


@dataclass(frozen=True, slots=True)
class Verdict:
    target: str
    wanted: str
    measured: str
    met: bool | None  # None: not measured in this run.


def find(rows: Sequence[Row], system: str, connections: int) -> Row | None:
    return next((row for row in rows if row.system == system and row.load.connections == connections), None)


def ratio(rows: Sequence[Row], connections: int, system: str = GATEWAY, to: str = BASELINE) -> float | None:
    """Divide the calls per second of one system by those of another, at the same number of connections."""
    ours, theirs = find(rows, system, connections), find(rows, to, connections)
    if ours is None or theirs is None or not theirs.load.answered:
        return None
    return ours.load.per_second / theirs.load.per_second


def added_ms(rows: Sequence[Row], connections: int, system: str = GATEWAY) -> float | None:
    """Return the median latency that a system adds to that of the upstream alone."""
    ours, direct = find(rows, system, connections), find(rows, UPSTREAM, connections)
    if ours is None or direct is None:
        return None
    return ours.load.latency_p50_ms - direct.load.latency_p50_ms


def verdicts(
    rows: Sequence[Row], exactness: Sequence[Exactness], idle_bytes: Mapping[str, int] | None
) -> tuple[Verdict, ...]:
    """Compare each target with its measured value."""
    at_64 = ratio(rows, 64)
    at_128 = find(rows, GATEWAY, 128)
    exact = next((run for run in exactness if run.system == GATEWAY), None)
    idle = sum(idle_bytes.values()) if idle_bytes else None
    found = [
        _verdict(
            "calls/s, 64 connections, times the baseline", f">= {_RATIO_MIN:g}", at_64, "{:.1f}", _RATIO_MIN, None
        ),
        _verdict(
            "calls/s, 128 connections",
            f">= {_PER_SECOND_MIN:,}",
            at_128.load.per_second if at_128 else None,
            "{:,.0f}",
            _PER_SECOND_MIN,
            None,
        ),
        _verdict(
            "p99 ms, 128 connections",
            f"<= {_P99_MS_MAX:g}",
            at_128.load.latency_p99_ms if at_128 else None,
            "{:.1f}",
            None,
            _P99_MS_MAX,
        ),
    ]
    for connections, most in _ADDED_MS_MAX.items():
        name = f"p50 ms added, {connections} connection{'s' if connections > 1 else ''}"
        found.append(_verdict(name, f"<= {most:g}", added_ms(rows, connections), "{:.2f}", None, most))
    off_by = exact.off_by if exact else None
    found.append(_verdict("credits off by, counted calls", "= 0", off_by, "{:d}", 0, 0))
    found.append(
        _verdict(
            "idle memory of the whole product, MB",
            f"<= {_IDLE_BYTES_MAX / 1e6:,.0f}",
            idle / 1e6 if idle is not None else None,
            "{:,.0f}",
            None,
            _IDLE_BYTES_MAX / 1e6,
        )
    )
    return tuple(found)


def _verdict(
    target: str, wanted: str, measured: float | None, shape: str, least: float | None, most: float | None
) -> Verdict:
    if measured is None:
        return Verdict(target, wanted, "not measured", None)
    met = (least is None or measured >= least) and (most is None or measured <= most)
    return Verdict(target, wanted, shape.format(measured), met)
