"""One page for the figures of all processes."""

import asyncio
import pickle
import urllib.request

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from actors.calls import Outcome
from actors.config import Config, TelemetryConfig
from actors.hosting import ActorUnreachable
from actors.telemetry import metrics_page
from actors.telemetry.metrics import Metrics
from actors.telemetry.metrics_page import MetricsPageActor, Reports, metrics_port, metrics_url, report_for_ever
from bench.product import free_ports


def _report(calls: int) -> bytes:
    """As it travels between processes."""
    figures = Metrics()
    for _ in range(calls):
        figures.call_ended("getSlot", Outcome.ANSWERED, 1, 0.1)
    return pickle.dumps(figures.families())


def _page(reports: Reports) -> str:
    registry = CollectorRegistry()
    registry.register(reports)
    return generate_latest(registry).decode()


def test_each_process_has_its_own_series_and_its_latest_report_counts() -> None:
    """A sum over the label `process` is the cluster's figure."""
    reports = Reports()
    for process, calls, now in (("gateway-1", 1, 0.0), ("gateway-2", 2, 1.0), ("gateway-1", 3, 2.0)):
        reports.keep(process, pickle.loads(_report(calls)), now, 1_000 + now)
    page = _page(reports)
    name = "ledger_gateway_calls_total"
    assert f'{name}{{method="getSlot",outcome="answered",process="gateway-1"}} 3.0' in page
    assert f'{name}{{method="getSlot",outcome="answered",process="gateway-2"}} 2.0' in page
    assert page.count(f"# HELP {name}") == 1
    assert 'ledger_gateway_reported_unix_seconds{process="gateway-1"} 1002.0' in page


def test_a_silent_process_leaves_the_page() -> None:
    """A replica that was killed must not be shown for ever as if it served."""
    reports = Reports()
    reports.keep("gateway-1", pickle.loads(_report(1)), 0.0, 1_000.0)
    reports.keep("gateway-2", pickle.loads(_report(1)), 20.0, 1_020.0)
    reports.drop_silent(31.0)
    assert "gateway-1" not in _page(reports)
    assert "gateway-2" in _page(reports)


def test_the_actor_serves_the_page_over_http_on_its_own_address() -> None:
    """Real socket, as Prometheus reads it."""
    port = free_ports().first
    page = MetricsPageActor("127.0.0.1", port, "made")
    page.report("gateway-1", pickle.loads(_report(1)))
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        assert 'process="gateway-1"' in answer.read().decode()


def test_the_port_follows_the_internal_ones_and_zero_switches_the_page_off() -> None:
    """Two instances on one machine have different internal ports, and so different pages."""
    assert metrics_port(Config()) == Config().serve.internal_port_first + 4
    off = Config(telemetry=TelemetryConfig(metrics_port=0))
    assert (metrics_port(off), metrics_url(off)) == (None, None)
    assert metrics_port(Config(telemetry=TelemetryConfig(metrics_port=9464))) == 9464


def test_the_page_of_a_local_run_is_told_with_an_address_that_can_be_asked() -> None:
    """0.0.0.0 is where it listens, and no address to connect to."""
    everywhere = Config(telemetry=TelemetryConfig(metrics_host="0.0.0.0", metrics_port=9464))
    assert metrics_url(everywhere) == "http://127.0.0.1:9464/metrics"


async def test_reports_go_on_after_the_page_was_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page that Ray restarts, or whatever goes wrong with it, ends neither the reports nor the process."""
    faults: list[Exception] = [ActorUnreachable("restarting"), RuntimeError("Ray is away")]
    looked_up, reported, pause = [], asyncio.Event(), asyncio.Event()

    async def ask(page: str, *told: object) -> None:
        if faults:
            raise faults.pop()
        reported.set()
        await pause.wait()

    monkeypatch.setattr(metrics_page.hosting, "find", lambda name: looked_up.append(name) or name)
    monkeypatch.setattr(metrics_page.hosting, "ask", ask)
    monkeypatch.setattr(metrics_page, "REPORT_SECONDS", 0)
    metrics = Metrics()
    reporting = asyncio.create_task(report_for_ever(Config(), "gateway-1", metrics))
    async with asyncio.timeout(5):
        await reported.wait()
    assert len(looked_up) == 3
    # The loop that reports is watched.
    assert metrics.registry.get_sample_value("ledger_gateway_event_loop_held_max_seconds") is not None
    reporting.cancel()
    await asyncio.gather(reporting, return_exceptions=True)


async def test_an_actor_writes_its_own_log_and_reports_once_it_is_assembled(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []

    class Assembled(metrics_page.ReportingActor):
        async def _assemble(self) -> None:
            steps.append("assembled")

        async def health(self) -> None:
            await self._ready()

    async def report(_: Config, process: str, metrics: Metrics, *, serves_calls: bool) -> None:
        steps.append(f"{process} reports, {serves_calls}")
        assert metrics is made._metrics

    monkeypatch.setattr(metrics_page.logs, "set_up", lambda _, name, __: steps.append(f"log {name}"))
    monkeypatch.setattr(metrics_page.hosting, "tune_gc", lambda: steps.append("gc"))
    monkeypatch.setattr(metrics_page, "report_for_ever", report)
    made = Assembled(Config(), "fingerprint", "an-actor", serves_calls=True)
    await made.health()
    await made._reporting
    assert steps == ["log an-actor", "assembled", "gc", "an-actor reports, True"]
