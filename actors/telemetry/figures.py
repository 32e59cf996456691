"""The figures for alerts: the gauges of a process, and the recent growth of some of its counters.

Implements: decisions, "The operators' page" (alerts that are on). Pure: times are arguments. metrics_page.py keeps one
history for each process of its machine. Not here: which figure is an alert (operators/rules.py).

What happens when full: of each process and counter there are at most SECONDS_MAX / STEP_SECONDS older values.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from prometheus_client.metrics_core import Metric

STEP_SECONDS: Final = 15.0
SECONDS_MAX: Final = 900.0
SPANS: Final = (300, 600, 900)  # Periods of growth, in seconds.
# Counters whose growth is reported, by their names in the registry, without namespace. Only these label values count.
COUNTED: Final[Mapping[str, str]] = {
    "store_failures": "",
    "background_crashes": "",
    "refusals": "INTERNAL_ERROR",
    "send_races": "unproven",
    "signals_gap_to_slot": "",
}
# Gauges whose lowest value of the last LEAST_SECONDS is reported: a value that stays above 0 waits for a person.
STAYING: Final = frozenset(("deposits_waiting",))
LEAST_SECONDS: Final = 600
_PREFIX = "ledger_gateway_"


class ProcessFigures(NamedTuple):
    """gauges, and grown by its span in seconds: by names without namespace. at: Unix seconds of the report. least: the
    lowest values of the last LEAST_SECONDS; empty where the process has not reported for so long."""

    machine: str
    process: str
    at: float
    gauges: Mapping[str, float]
    grown: Mapping[int, Mapping[str, float]]
    least: Mapping[str, float] = MappingProxyType({})


class History:
    """Values of one process's counters in the last quarter of an hour."""

    def __init__(self) -> None:
        self._values: deque[tuple[float, dict[str, float]]] = deque()

    def keep(self, families: Iterable[Metric], now: float) -> None:
        """now: monotonic seconds. Values that come sooner than a step after the newest ones replace nothing."""
        if self._values and now - self._values[-1][0] < STEP_SECONDS:
            return
        self._values.append((now, counted_in(families)))
        while now - self._values[0][0] > SECONDS_MAX:
            self._values.popleft()

    def grown(self, latest: Mapping[str, float], now: float) -> dict[int, dict[str, float]]:
        """Return by how much each counter has grown in each span, or since the first value where that is younger.

        A counter that was not there began at 0, but for the first report of a process that ran before.
        """
        found: dict[int, dict[str, float]] = {}
        for span in SPANS:
            before = next((values for at, values in self._values if now - at <= span), {})
            if self._values:
                found[span] = {name: value - before.get(name, 0.0) for name, value in latest.items()}
        return found

    def least(self, latest: Mapping[str, float], now: float) -> dict[str, float]:
        """Return the lowest values of the gauges in STAYING, over a completely known period."""
        if not self._values or now - self._values[0][0] < LEAST_SECONDS:
            return {}
        since = [values for at, values in self._values if now - at <= LEAST_SECONDS + STEP_SECONDS]
        return {name: min(values.get(name, 0.0) for values in (*since, latest)) for name in STAYING if name in latest}


def counted_in(families: Iterable[Metric]) -> dict[str, float]:
    """Return the values of the counters in COUNTED and the gauges in STAYING."""
    found = {}
    for family in families:
        name = family.name.removeprefix(_PREFIX)
        label = "" if name in STAYING else COUNTED.get(name)
        if label is None:
            continue
        samples = [one for one in family.samples if not one.name.endswith("_created")]
        found[name] = float(sum(one.value for one in samples if not label or label in one.labels.values()))
    return found


def gauges_in(families: Iterable[Metric]) -> dict[str, float]:
    """Return the gauges without labels of their own."""
    return {
        family.name.removeprefix(_PREFIX): float(family.samples[0].value)
        for family in families
        if family.type == "gauge" and len(family.samples) == 1 and not family.samples[0].labels
    }
