"""One page for the figures of all processes."""

import pickle
import urllib.request

from prometheus_client import CollectorRegistry, generate_latest

from actors.config import Config, TelemetryConfig
from actors.metrics import Metrics
from actors.metrics_page import MetricsPageActor, Reports, metrics_port
from bench.product import free_ports


def _report(calls: int) -> bytes:
    """As it travels between processes."""
    figures = Metrics()
    for _ in range(calls):
        figures.call_ended("getSlot", "SUCCESS", 1, 0.1)
    return pickle.dumps(figures.families())


def _page(reports: Reports) -> str:
    registry = CollectorRegistry()
    registry.register(reports)
    return generate_latest(registry).decode()


def test_each_process_has_its_own_series_and_its_latest_report_counts() -> None:
    """A sum over the label `process` is the cluster's figure."""
    reports = Reports()
    for process, calls, now in (("gateway-1", 1, 0.0), ("gateway-2", 2, 1.0), ("gateway-1", 3, 2.0)):
        reports.keep(process, pickle.loads(_report(calls)), now)
    page = _page(reports)
    name = "ledger_gateway_calls_total"
    assert f'{name}{{method="getSlot",outcome="SUCCESS",process="gateway-1"}} 3.0' in page
    assert f'{name}{{method="getSlot",outcome="SUCCESS",process="gateway-2"}} 2.0' in page
    assert page.count(f"# HELP {name}") == 1


def test_a_silent_process_leaves_the_page() -> None:
    """A replica that was killed must not be shown for ever as if it served."""
    reports = Reports()
    reports.keep("gateway-1", pickle.loads(_report(1)), 0.0)
    reports.keep("gateway-2", pickle.loads(_report(1)), 20.0)
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
    assert metrics_port(Config(telemetry=TelemetryConfig(metrics_port=0))) is None
    assert metrics_port(Config(telemetry=TelemetryConfig(metrics_port=9464))) == 9464
