"""The figures of one process: what is counted, in which unit, under which labels.

Implements: hostile input 13 (callers cannot make new series: every label comes from a list of the product's own).
The registry and the histograms are prometheus_client's. Counts of calls are plain integers until somebody asks for
them: a counter of the library costs 0.6 µs and a call adds to three of them.
Not here: where figures are served (metrics_page.py).
"""

from collections.abc import Callable, Collection, Iterable
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.metrics_core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from actors.catalog import METHODS

OTHER: Final = "other"
NAMESPACE: Final = "ledger_gateway"
_LABEL_MAX = 64
_SECONDS_BUCKETS = (
    *(0.0005, 0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015, 0.025),
    *(0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0),
)
_ROWS_BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024, 2_048, 4_096)


def bounded_label(value: str, known: Collection[str]) -> str:
    """The value when it is in the list, else "other"."""
    return value if value in known else OTHER


def method_label(method: str) -> str:
    return bounded_label(method, METHODS)


class FirstLabels:
    """Labels for values that no list can name beforehand, such as hosts: the first `labels_max` values get a series
    each, and all later ones share "other"."""

    def __init__(self, labels_max: int) -> None:
        assert labels_max > 0, labels_max
        self._labels_max = labels_max
        self._seen: set[str] = set()

    def label(self, value: str) -> str:
        text = value[:_LABEL_MAX]
        if text not in self._seen:
            if len(self._seen) >= self._labels_max:
                return OTHER
            self._seen.add(text)
        return text


class Tally(Collector):
    """A counter whose `add` is one dictionary write. Labels must come from bounded lists."""

    def __init__(self, name: str, text: str, labels: tuple[str, ...]) -> None:
        self._name, self._text, self._labels = f"{NAMESPACE}_{name}", text, labels
        self._values: dict[tuple[str, ...], int] = {}

    def add(self, labels: tuple[str, ...], amount: int = 1) -> None:
        self._values[labels] = self._values.get(labels, 0) + amount

    def collect(self) -> Iterable[Metric]:
        family = CounterMetricFamily(self._name, self._text, labels=self._labels)
        for labels, value in list(self._values.items()):
            family.add_metric(labels, value)
        yield family


class Metrics:
    """One process's figures; tests and tools make as many as they like."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.calls = self._tally("calls", "Calls that were admitted, by outcome.", "method", "outcome")
        self.credits_charged = self._tally("credits_charged", "Credits posted for calls.", "method")
        self.refusals = self._tally("refusals", "Requests refused, by row of the error table.", "error")
        self.ledger_entries = self._tally("ledger_entries", "Durable ledger entries.", "type")
        self.ledger_credits = self._tally(
            "ledger_credits", "Credits moved by durable ledger entries, without their sign.", "type"
        )
        self.payments = self._tally("x402_payments", "x402 payments, by result.", "result")
        self.store_failures = self._counter("store_failures", "Group commits that the database failed.")
        self.call_seconds = self._seconds("call_seconds", "Admitted calls, from the hold to the settled answer.")
        self.commit_seconds = self._seconds("commit_seconds", "One group commit to PostgreSQL.")
        self.commit_rows = Histogram(
            "commit_rows",
            "Ledger entries in one group commit.",
            namespace=NAMESPACE,
            registry=self.registry,
            buckets=_ROWS_BUCKETS,
        )
        self._gauges = Gauge("now", "A present number.", ("of",), namespace=NAMESPACE, registry=self.registry)

    def call_ended(self, method: str, outcome: str, charged: int, seconds: float) -> None:
        """method: of the catalog or a bulk path; outcome: a name of calls.Outcome; charged: credits."""
        self.calls.add((method, outcome))
        if charged:
            self.credits_charged.add((method,), charged)
        self.call_seconds.observe(seconds)

    def watch(self, name: str, read: Callable[[], float]) -> None:
        """Report a present number, such as a queue's length, by reading it when somebody asks."""
        self._gauges.labels(name).set_function(read)

    def families(self) -> list[Metric]:
        """All figures as they are now; they travel between processes."""
        return list(self.registry.collect())

    def _tally(self, name: str, text: str, *labels: str) -> Tally:
        tally = Tally(name, text, labels)
        self.registry.register(tally)
        return tally

    def _counter(self, name: str, text: str) -> Counter:
        return Counter(name, text, namespace=NAMESPACE, registry=self.registry)

    def _seconds(self, name: str, text: str) -> Histogram:
        return Histogram(name, text, namespace=NAMESPACE, registry=self.registry, buckets=_SECONDS_BUCKETS)
