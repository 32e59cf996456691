"""Decides when a slow read is sent to a second node, within a budget.

Implements: node pool (hedged reads after a p95-based delay, with a budget, so that an overload is not doubled).
Pure. pool.py reports the latencies of answered calls in microseconds, and sends the requests.
"""

from dataclasses import dataclass, field

_REMEMBERED = 128
_SORTED_EVERY = 32  # Sorting 128 numbers takes 5 us, and the p95 changes slowly.
_BEGIN_MS = 300  # The delay of a method with too few samples.
_SAMPLES_MIN = 16
_HEDGE_COSTS = 100
_SAVED_MAX = 10 * _HEDGE_COSTS  # Ten hedges at once, so that a node that starts to hang is noticed soon.


@dataclass(slots=True)
class Latency:
    """The recent latencies of one method."""

    samples_us: list[int] = field(default_factory=list)
    count: int = 0
    p95_us: int | None = None

    def add(self, latency_us: int) -> None:
        if len(self.samples_us) < _REMEMBERED:
            self.samples_us.append(latency_us)
        else:
            self.samples_us[self.count % _REMEMBERED] = latency_us
        self.count += 1
        if self.count % _SORTED_EVERY == 0 or self.count == _SAMPLES_MIN:
            ordered = sorted(self.samples_us)
            self.p95_us = ordered[len(ordered) * 95 // 100]


@dataclass(slots=True)
class Hedges:
    """delay_ms_min: the earliest second request. percent_max: the share of reads that may be sent twice."""

    delay_ms_min: int
    percent_max: int
    saved: int = _SAVED_MAX
    latencies: dict[str, Latency] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.percent_max == 0:
            self.saved = 0

    def delay_ms(self, method: str) -> int:
        """Return the time before a second request: the 95th percentile of answered calls."""
        latency = self.latencies.get(method)
        if latency is None or latency.p95_us is None:
            return max(_BEGIN_MS, self.delay_ms_min)
        return max(self.delay_ms_min, -(-latency.p95_us // 1_000))

    def read_began(self) -> None:
        self.saved = min(self.saved + self.percent_max, _SAVED_MAX)

    def affords(self) -> bool:
        """Return whether the budget allows one more second request."""
        return self.saved >= _HEDGE_COSTS

    def take(self) -> None:
        assert self.affords()
        self.saved -= _HEDGE_COSTS

    def answered(self, method: str, latency_us: int) -> None:
        """Record the latency of a call. The catalog bounds the number of methods."""
        latency = self.latencies.get(method)
        if latency is None:
            latency = self.latencies[method] = Latency()
        latency.add(latency_us)
