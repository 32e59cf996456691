"""On each machine one page for the figures of all its processes."""

import asyncio
import itertools
import pickle
import socket
import urllib.request
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from actors.calls import Outcome
from actors.config import Config, TelemetryConfig
from actors.hosting import ActorUnreachable
from actors.telemetry import metrics_page
from actors.telemetry.metrics import Metrics
from actors.telemetry.metrics_page import (
    MetricsPageActor,
    Reports,
    metrics_port,
    metrics_url,
    place_metrics_page,
    report_for_ever,
)
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
    reports = Reports("10.0.0.11")
    for process, calls, now in (("gateway-1", 1, 0.0), ("gateway-2", 2, 1.0), ("gateway-1", 3, 2.0)):
        reports.keep(process, pickle.loads(_report(calls)), now, 1_000 + now)
    page = _page(reports)
    name = "ledger_gateway_calls_total"
    assert f'{name}{{machine="10.0.0.11",method="getSlot",outcome="answered",process="gateway-1"}} 3.0' in page
    assert f'{name}{{machine="10.0.0.11",method="getSlot",outcome="answered",process="gateway-2"}} 2.0' in page
    assert page.count(f"# HELP {name}") == 1
    assert 'ledger_gateway_reported_unix_seconds{machine="10.0.0.11",process="gateway-1"} 1002.0' in page


def test_a_silent_process_leaves_the_page() -> None:
    """A replica that was killed must not be shown for ever as if it served."""
    reports = Reports("10.0.0.11")
    reports.keep("gateway-1", pickle.loads(_report(1)), 0.0, 1_000.0)
    reports.keep("gateway-2", pickle.loads(_report(1)), 20.0, 1_020.0)
    reports.drop_silent(31.0)
    assert "gateway-1" not in _page(reports)
    assert "gateway-2" in _page(reports)


def test_the_actor_serves_the_page_over_http_on_its_own_address() -> None:
    """Real socket, as Prometheus reads it."""
    port = free_ports().first
    page = MetricsPageActor("10.0.0.11", "127.0.0.1", port, "made")
    page.report("gateway-1", pickle.loads(_report(1)))
    assert 'machine="10.0.0.11",method="getSlot",outcome="answered",process="gateway-1"' in _got(port)


def _got(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        return str(answer.read().decode())


def test_a_page_whose_port_is_taken_listens_once_it_is_free() -> None:
    """The page of the release before ends a moment after its successor begins. The actor lives on meanwhile: with every
    report of every process another one would be placed."""
    port = free_ports().first
    with socket.create_server(("127.0.0.1", port)):
        page = MetricsPageActor("10.0.0.11", "127.0.0.1", port, "made")
        page.report("gateway-1", pickle.loads(_report(1)))
    page.report("gateway-2", pickle.loads(_report(1)))
    page.report("gateway-2", pickle.loads(_report(2)))
    assert all(f'process="gateway-{number}"' in _got(port) for number in (1, 2))


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The actors of one node, by name, in place of Ray: what each was placed with, and where."""
    placed: dict[str, Any] = {metrics_page._PAGE_OF_0_1_0: "of the release before"}

    def place(_: type, name: str, fingerprint: str, *arguments: object, on_node: str, may_share: bool) -> None:
        assert may_share
        placed[name] = (arguments, on_node)

    def find(name: str) -> Any:
        if name not in placed:
            raise ActorUnreachable(name)
        return placed[name]

    for name, stand_in in {
        "place": place,
        "find": find,
        "this_node": lambda: "0123456789abcdef",
        "this_address": lambda: "10.0.0.11",
        "remove": lambda name: placed.pop(name, None),
        "remove_of_lost_nodes": lambda prefix: placed.pop(f"{prefix}of a lost node", None),
    }.items():
        monkeypatch.setattr(metrics_page.hosting, name, stand_in)
    return placed


def test_each_node_has_a_page_of_its_own_on_the_port_that_all_have(node: dict[str, Any]) -> None:
    """So Prometheus has one fixed target on each machine. The pages of lost nodes are ended, and so is the one page of
    a cluster of the release before: it would keep the port of its machine."""
    node["metrics-page-of a lost node"] = None
    place_metrics_page(Config(telemetry=TelemetryConfig(metrics_host="0.0.0.0", metrics_port=9464)))
    page = (("10.0.0.11", "0.0.0.0", 9464, "0.0.0.0:9464"), "0123456789abcdef")
    assert node == {"metrics-page-0123456789ab": page}


def test_no_page_is_placed_where_it_is_switched_off(node: dict[str, Any]) -> None:
    before = dict(node)
    place_metrics_page(Config(telemetry=TelemetryConfig(metrics_port=0)))
    assert node == before


def test_a_process_on_a_machine_without_a_replica_places_the_page(node: dict[str, Any]) -> None:
    """Replicas place it where they start, and Ray places an owner of accounts on any machine."""
    assert metrics_page._page_of_this_node(Config()) == node["metrics-page-0123456789ab"]
    node["metrics-page-0123456789ab"] = "found"
    assert metrics_page._page_of_this_node(Config()) == "found"


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

    monkeypatch.setattr(metrics_page.hosting, "this_node", lambda: "0123456789abcdef")
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


@pytest.mark.parametrize(("worked", "paused"), [(0.05, [2.0, 6.0, 6.0]), (0.5, [2.0, 2.0, 2.0])])
async def test_a_process_with_nothing_to_do_reports_less_often(
    monkeypatch: pytest.MonkeyPatch, worked: float, paused: list[float]
) -> None:
    """Each report wakes two processes. worked: processor seconds of the loop's thread between two."""
    pauses: list[float] = []
    seconds = itertools.accumulate(itertools.cycle((0.0, worked)))

    async def ask(*_: object) -> None:
        """The page takes the report."""

    async def sleep(pause: float) -> None:
        pauses.append(pause)
        if len(pauses) == len(paused):
            raise asyncio.CancelledError

    monkeypatch.setattr(metrics_page, "_page_of_this_node", lambda _: "page")
    monkeypatch.setattr(metrics_page.hosting, "ask", ask)
    monkeypatch.setattr(metrics_page.SystemClock, "thread_seconds", lambda: next(seconds))
    monkeypatch.setattr(metrics_page.asyncio, "sleep", sleep)
    with pytest.raises(asyncio.CancelledError):
        await metrics_page._report(Config(), "gateway-1", Metrics())
    assert pauses == paused


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
    monkeypatch.setattr(metrics_page, "tune_gc", lambda: steps.append("gc"))
    monkeypatch.setattr(metrics_page, "report_for_ever", report)
    made = Assembled(Config(), "fingerprint", "an-actor", serves_calls=True)
    await made.health()
    await made._reporting
    assert steps == ["log an-actor", "assembled", "gc", "an-actor reports, True"]
