"""Serves GET /metrics: on each machine one page with the metrics of all processes there, for Prometheus.

Implements: design, "Owners, for every kind of actor" (metrics). One Ray actor on each node keeps the latest report of
each process of this node, under the labels `process` and `machine`, and serves the page by prometheus_client's HTTP
server on a private port, which is the same on every machine. A page for the whole cluster would be wherever Ray starts
it, so Prometheus would have to look for it, and its machine would take the figures of all others with it.

Every process reports to the page of its node every two seconds, and at rest every six. A process that
has not reported for thirty seconds leaves the page. When the actor is lost, it starts again empty, and the next reports
fill it.
"""

import asyncio
import logging
import os
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from actors import hosting, small_actors
from actors.clock import SystemClock
from actors.config import Config
from actors.free_memory import tune_gc
from actors.small_actors import SHARED_ACTOR_NAME
from actors.telemetry import logs
from actors.telemetry.figures import History, ProcessFigures, counted_in, gauges_in
from actors.telemetry.loop_watch import SERVING_TICK_SECONDS, TICK_SECONDS, LoopWatch
from actors.telemetry.metrics import NAMESPACE, Metrics

logger = logging.getLogger(__name__)

METRICS_ACTOR_PREFIX = "metrics-page-"
_PAGE_OF_0_1_0 = "metrics-page"  # One for the whole cluster; it would keep the port of its machine.
REPORT_SECONDS = 2.0
_RESTING_REPORT_SECONDS = 6.0  # Of a process whose loop had next to nothing to do since its last report:
_RESTING_PART_MAX = 0.05  # It worked for less than this part of the time. A report takes two milliseconds.
_SILENT_SECONDS_MAX = 30.0
_MEMORY = "machine_memory_available_ratio"
_MEMINFO = Path("/proc/meminfo")
_PROCESSES_MAX = 4_096  # Far above any cluster; further processes are left out.


class Reports(Collector):
    """The latest report of each process of a machine, merged.

    machine: address of the machine. now: monotonic seconds; unix_seconds: the same moment, for readers. memory: the
    part of the machine's memory that is available; None: not known.
    """

    def __init__(self, machine: str, memory: Callable[[], float | None] = lambda: None) -> None:
        self._machine, self._memory = machine, memory
        self._latest: dict[str, tuple[float, float, list[Metric]]] = {}
        self._histories: dict[str, History] = {}

    def keep(self, process: str, families: list[Metric], now: float, unix_seconds: float) -> None:
        if process in self._latest or len(self._latest) < _PROCESSES_MAX:
            self._latest[process] = (now, unix_seconds, families)
            self._histories.setdefault(process, History()).keep(families, now)

    def figures(self) -> list[ProcessFigures]:
        """Return the figures for alerts of each process."""
        found = []
        for process, (now, unix_seconds, families) in sorted(self._latest.items()):
            counted, history = counted_in(families), self._histories[process]
            told = history.grown(counted, now), history.least(counted, now)
            found.append(ProcessFigures(self._machine, process, unix_seconds, gauges_in(families), *told))
        memory = self._memory()
        if memory is not None:
            name, at = f"machine-{self._machine}", max((at for _, at, _ in self._latest.values()), default=0.0)
            found.append(ProcessFigures(self._machine, name, at, {_MEMORY: memory}, {}))
        return found

    def drop_silent(self, now: float) -> None:
        for process, (at, _, _) in list(self._latest.items()):
            if now - at > _SILENT_SECONDS_MAX:
                del self._latest[process], self._histories[process]

    def collect(self) -> Iterable[Metric]:
        name = f"{NAMESPACE}_reported_unix_seconds"
        reported = GaugeMetricFamily(name, "When a process reported its figures last.", labels=("machine", "process"))
        merged: dict[str, Metric] = {name: reported}
        memory = self._memory()
        if memory is not None:
            text = "Part of the machine's memory that is available, 0 to 1."
            gauge = GaugeMetricFamily(f"{NAMESPACE}_{_MEMORY}", text, labels=("machine", "process"))
            gauge.add_metric((self._machine, f"machine-{self._machine}"), memory)
            merged[gauge.name] = gauge
        for process, (_, unix_seconds, families) in sorted(self._latest.items()):
            reported.add_metric((self._machine, process), unix_seconds)
            of_process = {"machine": self._machine, "process": process}
            for family in families:
                into = merged.setdefault(family.name, Metric(family.name, family.documentation, family.type))
                into.samples += [_labelled(sample, of_process) for sample in family.samples]
        return merged.values()


def _labelled(sample: Sample, more: Mapping[str, str]) -> Sample:
    return sample._replace(labels={**sample.labels, **more})


class MetricsPageActor:
    """The Ray actor. It listens from its construction on, or, while another program has the port, from the first
    report after that: an actor that ended instead would be placed again with every report."""

    def __init__(self, machine: str, host: str, port: int, fingerprint: str) -> None:
        self._fingerprint, self._listens_on = fingerprint, (port, host)
        self._clock, self._reports = SystemClock(), Reports(machine, memory_available)
        self._registry = CollectorRegistry()
        self._registry.register(self._reports)
        self._is_listening = self._listen(logging.WARNING)

    def fingerprint(self) -> str:
        return self._fingerprint

    def process_id(self) -> int:
        return os.getpid()

    def actor_state(self) -> dict[str, Any]:
        return hosting.where_this_runs()

    def figures(self) -> list[ProcessFigures]:
        self._reports.drop_silent(self._clock.monotonic())
        return self._reports.figures()

    def report(self, process: str, families: list[Metric]) -> None:
        now = self._clock.monotonic()
        self._reports.keep(process, families, now, self._clock.now_ms() / 1000)
        self._reports.drop_silent(now)
        self._is_listening = self._is_listening or self._listen(logging.DEBUG)

    def _listen(self, level_of_failure: int) -> bool:
        try:
            start_http_server(*self._listens_on, self._registry)
        except OSError as error:
            logger.log(level_of_failure, "GET /metrics waits for its port: %s", error)
            return False
        return True


def memory_available() -> float | None:
    """Return the part of this machine's memory that is available. None: it does not tell."""
    try:
        lines = _MEMINFO.read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    of = {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines) if rest.strip()}
    total = of.get("MemTotal", 0)
    return of["MemAvailable"] / total if total and "MemAvailable" in of else None


def metrics_port(config: Config) -> int | None:
    """Return the port of the page. None: the page is switched off."""
    port = config.telemetry.metrics_port
    return (config.serve.internal_port_first + 4 if port is None else port) or None


def metrics_url(config: Config) -> str | None:
    """Return the URL of the page of this machine, as it is asked from there."""
    port, host = metrics_port(config), config.telemetry.metrics_host
    host = "127.0.0.1" if host in ("0.0.0.0", "::") else host  # noqa: S104
    return None if port is None else f"http://{host}:{port}/metrics"


def place_metrics_page(config: Config) -> None:
    """Start the page of this node where it does not run. Needs a connected Ray; blocks while a process starts.

    The product runs without the page, so a page that cannot be started is only logged.
    """
    port = metrics_port(config)
    if port is not None:
        node, host = hosting.this_node(), config.telemetry.metrics_host
        name, fingerprint = hosting.name_on(METRICS_ACTOR_PREFIX, node), f"{host}:{port}"
        hosting.remove(_PAGE_OF_0_1_0)
        hosting.remove_of_lost_nodes(METRICS_ACTOR_PREFIX)
        page = (hosting.this_address(), host, port, fingerprint)
        try:
            hosting.place(MetricsPageActor, name, fingerprint, *page, on_node=node, may_share=True)
        except hosting.ActorUnreachable as error:
            logger.warning("GET /metrics is not available: %s", error)


def _page_of_this_node(config: Config) -> Any:
    """Return the actor of the page. It is placed where there is none: on a machine without a replica nobody did it."""
    name = hosting.name_on(METRICS_ACTOR_PREFIX, hosting.this_node())
    try:
        return hosting.find(name)
    except hosting.ActorUnreachable:
        place_metrics_page(config)
        return hosting.find(name)


class ReportingActor(hosting.StartingActor):
    """An actor that writes the log `name`, and reports its metrics. Where it shares its process, that has the log.

    serves_calls: as of report_for_ever.
    """

    def __init__(self, config: Config, fingerprint: str, name: str, *, serves_calls: bool = False) -> None:
        super().__init__(fingerprint)
        self._config, self._name, self._serves_calls = config, name, serves_calls
        self._has_process = name == SHARED_ACTOR_NAME or small_actors.here is None
        self._metrics = Metrics(of_process=self._has_process)

    async def _open(self) -> None:
        config = self._config
        if self._has_process:
            logs.set_up(config.telemetry, self._name, config.telemetry.log_dir)
        await self._assemble()
        report = report_for_ever(config, self._name, self._metrics, serves_calls=self._serves_calls)
        self._reporting = asyncio.create_task(report)
        tune_gc()

    @abstractmethod
    async def _assemble(self) -> None:
        """Open connections, and start loops."""


async def report_for_ever(config: Config, process: str, metrics: Metrics, *, serves_calls: bool = False) -> None:
    """Report this process's metrics and watch the running event loop for them, until cancelled.

    serves_calls: clients' calls wait for this loop, so the watch looks more often. Of small actors that share their
    process, the process itself watches the loop. A page that does not answer is
    looked up again the next time, and placed where it is gone.
    """
    if metrics_port(config) is None:
        return
    if process != SHARED_ACTOR_NAME and small_actors.here is not None:
        await _report(config, process, metrics)
        return
    watch = LoopWatch(metrics, SERVING_TICK_SECONDS if serves_calls else TICK_SECONDS)
    watch.start()
    try:
        await _report(config, process, metrics)
    finally:
        watch.stop()


async def _report(config: Config, process: str, metrics: Metrics) -> None:
    page, told, pause_seconds = None, False, REPORT_SECONDS
    while True:
        worked_before = SystemClock.thread_seconds()
        try:
            if page is None:
                # In a thread: the call blocks for as long as Ray's own processes do not answer.
                page = await asyncio.to_thread(_page_of_this_node, config)
            await hosting.ask(page, "report", process, metrics.families())
            told = False
        except Exception as error:  # noqa: BLE001 - reporting must never end this process.
            page = None
            if not told:
                logger.warning("metrics are not reported: %s: %s", type(error).__name__, error)
            told = True
        await asyncio.sleep(pause_seconds)
        worked = SystemClock.thread_seconds() - worked_before
        pause_seconds = _RESTING_REPORT_SECONDS if worked < _RESTING_PART_MAX * pause_seconds else REPORT_SECONDS
