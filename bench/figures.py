"""Figures that several scenarios have: a step of load, and percentiles. Pure: no clock, no I/O."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Load:
    """Figures of a generator. answered: calls with status 2xx; errors: all others, including broken connections."""

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


def percentile(values: Iterable[float], percent: float) -> float:
    """Return a percentile by nearest rank; 0 for no values."""
    ascending = sorted(values)
    return ascending[min(len(ascending) - 1, int(len(ascending) * percent // 100))] if ascending else 0.0


def in_ms(seconds: Sequence[float], prefix: str = "") -> dict[str, float]:
    """Return median, 99th percentile and maximum of durations, in milliseconds; zeros for no values."""
    ascending = sorted(seconds) or [0.0]
    found = {"p50_ms": percentile(ascending, 50), "p99_ms": percentile(ascending, 99), "max_ms": ascending[-1]}
    return {prefix + name: round(value * 1e3, 2) for name, value in found.items()}
