"""GET /metrics: the figures of every process of the cluster on one page, for Prometheus.

One Ray actor holds what the others last reported, each under a label `process`, and serves it by prometheus_client's
own HTTP server on a private port. A replica, an account's owner and the deposit watcher report every five seconds; a
process that has not reported for thirty leaves the page. Losing the actor loses no figure: it starts again empty, and
the next reports fill it.
"""

import asyncio
import contextlib
from collections.abc import Iterable

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from actors import hosting
from actors.clock import SystemClock
from actors.config import Config
from actors.metrics import Metrics

METRICS_ACTOR_NAME = "metrics-page"
REPORT_SECONDS = 5.0
_SILENT_SECONDS_MAX = 30.0
_PROCESSES_MAX = 4_096  # Far above any cluster; a process beyond it is left out.


class Reports(Collector):
    """The latest report of each process, merged. Time is an argument of `keep` and of `drop_silent`."""

    def __init__(self) -> None:
        self._latest: dict[str, tuple[float, list[Metric]]] = {}

    def keep(self, process: str, families: list[Metric], now: float) -> None:
        if process in self._latest or len(self._latest) < _PROCESSES_MAX:
            self._latest[process] = (now, families)

    def drop_silent(self, now: float) -> None:
        for process, (at, _) in list(self._latest.items()):
            if now - at > _SILENT_SECONDS_MAX:
                del self._latest[process]

    def collect(self) -> Iterable[Metric]:
        merged: dict[str, Metric] = {}
        for process, (_, families) in sorted(self._latest.items()):
            for family in families:
                into = merged.setdefault(family.name, Metric(family.name, family.documentation, family.type))
                into.samples += [_of(process, sample) for sample in family.samples]
        return merged.values()


def _of(process: str, sample: Sample) -> Sample:
    return sample._replace(labels={**sample.labels, "process": process})


class MetricsPageActor:
    """Ray actor. Begins to listen when it is made."""

    def __init__(self, host: str, port: int, fingerprint: str) -> None:
        self._fingerprint = fingerprint
        self._clock, self._reports = SystemClock(), Reports()
        registry = CollectorRegistry()
        registry.register(self._reports)
        start_http_server(port, host, registry)

    def fingerprint(self) -> str:
        return self._fingerprint

    def report(self, process: str, families: list[Metric]) -> None:
        now = self._clock.monotonic()
        self._reports.keep(process, families, now)
        self._reports.drop_silent(now)


def metrics_port(config: Config) -> int | None:
    """None: the page is switched off."""
    port = config.telemetry.metrics_port
    return (config.serve.internal_port_first + 4 if port is None else port) or None


def place_metrics_page(config: Config) -> None:
    """Start the page where there is none yet. Needs a connected Ray; blocks while a process starts."""
    port = metrics_port(config)
    if port is not None:
        host = config.telemetry.metrics_host
        fingerprint = f"{host}:{port}"
        hosting.place(MetricsPageActor, METRICS_ACTOR_NAME, fingerprint, host, port, fingerprint)


async def report_for_ever(config: Config, process: str, metrics: Metrics) -> None:
    """Report this process's figures until cancelled. A page that is away is passed over."""
    if metrics_port(config) is None:
        return
    while True:
        with contextlib.suppress(hosting.ActorUnreachable):
            await hosting.ask(hosting.find(METRICS_ACTOR_NAME), "report", process, metrics.families())
        await asyncio.sleep(REPORT_SECONDS)
