"""Serves GET /metrics: the metrics of every process of the cluster on one page, for Prometheus.

One Ray actor keeps the latest report of each process, under a label `process`, and serves the page by
prometheus_client's HTTP server on a private port. Replicas, account owners and the deposit watcher report every two
seconds, which costs each a thousandth of a core. A process that has not reported for thirty seconds leaves the page.
When the actor is lost, it starts again empty, and the next reports fill it.
"""

import asyncio
import logging
import os
from abc import abstractmethod
from collections.abc import Iterable
from typing import Any

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from actors import hosting
from actors.clock import SystemClock
from actors.config import Config
from actors.telemetry import logs
from actors.telemetry.loop_watch import SERVING_TICK_SECONDS, TICK_SECONDS, LoopWatch
from actors.telemetry.metrics import NAMESPACE, Metrics

logger = logging.getLogger(__name__)

METRICS_ACTOR_NAME = "metrics-page"
REPORT_SECONDS = 2.0
_SILENT_SECONDS_MAX = 30.0
_PROCESSES_MAX = 4_096  # Far above any cluster; a process beyond it is left out.


class Reports(Collector):
    """The latest report of each process, merged. now: monotonic seconds; unix_seconds: the same moment, for readers."""

    def __init__(self) -> None:
        self._latest: dict[str, tuple[float, float, list[Metric]]] = {}

    def keep(self, process: str, families: list[Metric], now: float, unix_seconds: float) -> None:
        if process in self._latest or len(self._latest) < _PROCESSES_MAX:
            self._latest[process] = (now, unix_seconds, families)

    def drop_silent(self, now: float) -> None:
        for process, (at, _, _) in list(self._latest.items()):
            if now - at > _SILENT_SECONDS_MAX:
                del self._latest[process]

    def collect(self) -> Iterable[Metric]:
        name = f"{NAMESPACE}_reported_unix_seconds"
        reported = GaugeMetricFamily(name, "When a process reported its figures last.", labels=("process",))
        merged: dict[str, Metric] = {name: reported}
        for process, (_, unix_seconds, families) in sorted(self._latest.items()):
            reported.add_metric((process,), unix_seconds)
            for family in families:
                into = merged.setdefault(family.name, Metric(family.name, family.documentation, family.type))
                into.samples += [_of(process, sample) for sample in family.samples]
        return merged.values()


def _of(process: str, sample: Sample) -> Sample:
    return sample._replace(labels={**sample.labels, "process": process})


class MetricsPageActor:
    """The Ray actor. It listens from its construction on."""

    def __init__(self, host: str, port: int, fingerprint: str) -> None:
        self._fingerprint = fingerprint
        self._clock, self._reports = SystemClock(), Reports()
        registry = CollectorRegistry()
        registry.register(self._reports)
        start_http_server(port, host, registry)

    def fingerprint(self) -> str:
        return self._fingerprint

    def process_id(self) -> int:
        return os.getpid()

    def actor_state(self) -> dict[str, Any]:
        return hosting.where_this_runs()

    def report(self, process: str, families: list[Metric]) -> None:
        now = self._clock.monotonic()
        self._reports.keep(process, families, now, self._clock.now_ms() / 1000)
        self._reports.drop_silent(now)


def metrics_port(config: Config) -> int | None:
    """Return the port of the page. None: the page is switched off."""
    port = config.telemetry.metrics_port
    return (config.serve.internal_port_first + 4 if port is None else port) or None


def metrics_url(config: Config) -> str | None:
    """Return the URL of the page of a local run."""
    port, host = metrics_port(config), config.telemetry.metrics_host
    host = "127.0.0.1" if host in ("0.0.0.0", "::") else host  # noqa: S104
    return None if port is None else f"http://{host}:{port}/metrics"


def place_metrics_page(config: Config) -> None:
    """Start the page where it does not run. Needs a connected Ray; blocks while a process starts.

    The product runs without the page, so a page that cannot be started is only logged.
    """
    port = metrics_port(config)
    if port is not None:
        host = config.telemetry.metrics_host
        fingerprint = f"{host}:{port}"
        try:
            hosting.place(MetricsPageActor, METRICS_ACTOR_NAME, fingerprint, host, port, fingerprint)
        except hosting.ActorUnreachable as error:
            logger.warning("GET /metrics is not available: %s", error)


class ReportingActor(hosting.StartingActor):
    """An actor with a process of its own: it writes the log `name`, and reports its metrics.

    serves_calls: as of report_for_ever.
    """

    def __init__(self, config: Config, fingerprint: str, name: str, *, serves_calls: bool = False) -> None:
        super().__init__(fingerprint)
        self._config, self._name, self._serves_calls, self._metrics = config, name, serves_calls, Metrics()

    async def _open(self) -> None:
        config = self._config
        logs.set_up(config.telemetry, self._name, config.telemetry.log_dir)
        await self._assemble()
        report = report_for_ever(config, self._name, self._metrics, serves_calls=self._serves_calls)
        self._reporting = asyncio.create_task(report)
        hosting.tune_gc()

    @abstractmethod
    async def _assemble(self) -> None:
        """Open connections, and start loops."""


async def report_for_ever(config: Config, process: str, metrics: Metrics, *, serves_calls: bool = False) -> None:
    """Report this process's metrics and watch the running event loop for them, until cancelled.

    serves_calls: clients' calls wait for this loop, so the watch looks more often. A page that does not answer is
    looked up again the next time.
    """
    if metrics_port(config) is None:
        return
    watch = LoopWatch(metrics, SERVING_TICK_SECONDS if serves_calls else TICK_SECONDS)
    watch.start()
    try:
        await _report(process, metrics)
    finally:
        watch.stop()


async def _report(process: str, metrics: Metrics) -> None:
    page, told = None, False
    while True:
        try:
            if page is None:
                # In a thread: the call blocks for as long as Ray's own processes do not answer.
                page = await asyncio.to_thread(hosting.find, METRICS_ACTOR_NAME)
            await hosting.ask(page, "report", process, metrics.families())
            told = False
        except Exception as error:  # noqa: BLE001 - reporting must never end this process.
            page = None
            if not told:
                logger.warning("metrics are not reported: %s: %s", type(error).__name__, error)
            told = True
        await asyncio.sleep(REPORT_SECONDS)
