"""The metrics of one process: their names, units and labels.

Implements: threat 13. Callers cannot create new series: every label comes from a fixed list, such as the
catalog's methods, the error table's constants and the outcomes of calls. The registry and the format are
prometheus_client's. Counters and histograms here are plain numbers until the page is built: those of the library cost
4.4 µs of processor time for each call, these 0.6 µs. Not here: the page (metrics_page.py).
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable
from itertools import accumulate
from typing import Final

from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.metrics_core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from actors.background import Background
from actors.calls import Outcome

NAMESPACE: Final = "ledger_gateway"
_SECONDS_BUCKETS = (
    *(0.0005, 0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015, 0.025),
    *(0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0),
)
_LOOP_BUCKETS = (
    *(0.001, 0.002, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.05, 0.075),
    *(0.1, 0.15, 0.25, 0.5, 1.0, 2.5, 5.0),
)
_ROWS_BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024, 2_048, 4_096)


class Tally(Collector):
    """A counter whose `add` is one dictionary write. Labels must come from bounded lists."""

    def __init__(self, name: str, text: str, labels: tuple[str, ...]) -> None:
        self._name, self._text, self._labels = f"{NAMESPACE}_{name}", text, labels
        # A counter without labels begins at 0: Prometheus does not count a first value as an increase.
        self._values: dict[tuple[str, ...], int] = {} if labels else {(): 0}

    def add(self, labels: tuple[str, ...], amount: int = 1) -> None:
        self._values[labels] = self._values.get(labels, 0) + amount

    def collect(self) -> Iterable[Metric]:
        family = CounterMetricFamily(self._name, self._text, labels=self._labels)
        for labels, value in list(self._values.items()):
            family.add_metric(labels, value)
        yield family


class Spread(Collector):
    """A histogram whose `observe` is one search in a short list. bounds: upper ends of its ranges, ascending."""

    def __init__(self, name: str, text: str, bounds: tuple[float, ...]) -> None:
        self._name, self._text, self._bounds = f"{NAMESPACE}_{name}", text, bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def collect(self) -> Iterable[Metric]:
        ends = [*(str(float(bound)) for bound in self._bounds), "+Inf"]
        counts = [float(count) for count in accumulate(self._counts)]
        family = HistogramMetricFamily(self._name, self._text)
        family.add_metric([], list(zip(ends, counts, strict=True)), self._sum)
        yield family


class Calls(Collector):
    """Admitted calls and their charges, by method and outcome: two counters that one dictionary look-up finds."""

    def __init__(self) -> None:
        self.ends: dict[tuple[str, int], list[int]] = {}  # Method and outcome to number and credits.

    def collect(self) -> Iterable[Metric]:
        calls = CounterMetricFamily(
            f"{NAMESPACE}_calls", "Calls that were admitted, by outcome.", labels=("method", "outcome")
        )
        charged = CounterMetricFamily(
            f"{NAMESPACE}_credits_charged",
            "Credits posted for calls, streams and deliveries.",
            labels=("method", "outcome"),
        )
        for (method, outcome), (number, credits) in list(self.ends.items()):
            labels = (method, Outcome(outcome).name.lower())
            if number:
                calls.add_metric(labels, number)
            if credits:
                charged.add_metric(labels, credits)
        return calls, charged


class Metrics:
    """The metrics of one process. Tests and tools may make several.

    of_process: False for those of one of several actors in a process that tells its own figures by itself.
    """

    def __init__(self, *, of_process: bool = True) -> None:
        self.registry = CollectorRegistry()
        self._calls = Calls()
        self.registry.register(self._calls)
        self.refusals = self._tally("refusals", "Requests refused, by row of the error table.", "error")
        self.ledger_entries = self._tally("ledger_entries", "Durable ledger entries.", "type")
        self.ledger_credits = self._tally(
            "ledger_credits", "Credits moved by durable ledger entries, without their sign.", "type"
        )
        self.payments = self._tally("x402_payments", "x402 payments, by result.", "result")
        self.deposits = self._tally("deposits", "Transfers that the deposit watcher recorded, by status.", "status")
        self.send_legs = self._tally("send_legs", "Transactions given to a leg, by result.", "leg", "result")
        self.send_races = self._tally("send_races", "Ended races, by outcome.", "outcome")
        self.send_refusals = self._tally("send_refusals", "Sends that the racer refused, by reason.", "reason")
        self.send_landing_seconds = self._spread(
            "send_landing_seconds", "Races that landed, from the request to the confirmation.", _SECONDS_BUCKETS
        )
        self.webhook_attempts = self._tally("webhook_attempts", "Requests to webhooks, by result.", "result")
        self.root_memos = self._tally("root_memos", "Memos of signed statements on the chain, by result.", "result")
        self.root_memo_lamports = self._tally("root_memo_lamports", "Lamports that the chain charged for memos.")
        self.calls_not_logged = self._tally("calls_not_logged", "Calls that are in no log: no room, or no store.")
        self.store_failures = self._tally("store_failures", "Group commits that the database failed.")
        self.call_seconds = self._spread(
            "call_seconds", "Admitted calls, from the hold to the settled answer.", _SECONDS_BUCKETS
        )
        self.commit_seconds = self._spread("commit_seconds", "One group commit to PostgreSQL.", _SECONDS_BUCKETS)
        self.commit_rows = self._spread("commit_rows", "Ledger entries in one group commit.", _ROWS_BUCKETS)
        self.loop_held_seconds = self._spread(
            "event_loop_held_seconds",
            "Lateness of the event loop's timer while its thread worked, of every tick.",
            _LOOP_BUCKETS,
        )
        self.loop_stalled_seconds = self._spread(
            "event_loop_stalled_seconds",
            "Lateness of the event loop's timer while its thread waited for a processor, a thread or a call.",
            _LOOP_BUCKETS,
        )
        self._gauges: dict[str, Gauge] = {}
        text = "Background work of this process that ended by an error that nobody expected."
        if of_process:
            self.watch("background_crashes", text, lambda: Background.crashes)

    def call_ended(self, method: str, outcome: int, charged: int, seconds: float | None) -> None:
        """Count the end of an admitted call.

        method: of the catalog, or a bulk path; outcome: a calls.Outcome; charged: credits; seconds: None where no
        caller waited for the end.
        """
        ends = self._calls.ends
        end = ends.get((method, outcome))
        if end is None:
            end = ends[method, outcome] = [0, 0]
        end[0] += 1
        end[1] += charged
        if seconds is not None:
            self.call_seconds.observe(seconds)

    def charged(self, method: str, credits: int) -> None:
        """Count credits posted for no call: events and minutes of a stream, deliveries of webhooks."""
        self._calls.ends.setdefault((method, int(Outcome.ANSWERED)), [0, 0])[1] += credits

    def watch(self, name: str, text: str, read: Callable[[], float]) -> None:
        """Report a current number, such as a queue's length; it is read when the page is built.

        text: the counted quantity with its unit. A second call with the same name replaces the first.
        """
        gauge = self._gauges.get(name)
        if gauge is None:
            gauge = self._gauges[name] = Gauge(name, text, namespace=NAMESPACE, registry=self.registry)
        gauge.set_function(read)

    def families(self) -> list[Metric]:
        """Return the current values of all metrics, in a form that can be sent to another process."""
        return list(self.registry.collect())

    def _tally(self, name: str, text: str, *labels: str) -> Tally:
        tally = Tally(name, text, labels)
        self.registry.register(tally)
        return tally

    def _spread(self, name: str, text: str, bounds: tuple[float, ...]) -> Spread:
        spread = Spread(name, text, bounds)
        self.registry.register(spread)
        return spread
