"""Reads from GET /metrics how long event loops were held."""

import time
import urllib.request
from collections import Counter

from prometheus_client.parser import text_string_to_metric_families

from bench.product import Product

_HELD = "ledger_gateway_event_loop_held_seconds_bucket"
_REPORTED = "ledger_gateway_reported_unix_seconds"
_REPLICA = "gateway-"
_WAIT_SECONDS, _LOOK_SECONDS = 10.0, 0.3  # Processes report every two seconds.


class HeldLoops:
    """The histograms at one moment of the processes whose names begin with this, by default the replicas.

    counts: by process and upper end of a range, cumulative."""

    def __init__(self, page: str, prefix: str = _REPLICA) -> None:
        self.counts: Counter[tuple[str, float]] = Counter()
        self.reported: list[float] = []  # Report times of the processes, in Unix seconds.
        for family in text_string_to_metric_families(page):
            for sample in family.samples:
                process = sample.labels.get("process", "")
                if process.startswith(prefix) and sample.name == _HELD:
                    self.counts[process, float(sample.labels["le"])] = int(sample.value)
                elif process.startswith(prefix) and sample.name == _REPORTED:
                    self.reported.append(sample.value)

    def longest_since(self, before: "HeldLoops") -> float:
        """Return the upper end of the range of the longest hold since then, in seconds."""
        longest = 0.0
        for process in {process for process, _ in self.counts}:
            below = 0
            for bound in sorted(bound for name, bound in self.counts if name == process):
                grown = self.counts[process, bound] - before.counts[process, bound]
                if grown > below:
                    below, longest = grown, max(longest, bound)
        return longest


def held_loops(product: Product, prefix: str = _REPLICA) -> HeldLoops:
    """Wait until every such process on the page has reported after this moment; give up on one that is gone."""
    asked_at, deadline = time.time(), time.monotonic() + _WAIT_SECONDS
    while True:
        with urllib.request.urlopen(product.ready["metrics_url"], timeout=10) as answer:
            found = HeldLoops(answer.read().decode(), prefix)
        if (found.reported and min(found.reported) > asked_at) or time.monotonic() > deadline:
            return found
        time.sleep(_LOOK_SECONDS)
