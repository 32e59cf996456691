"""Figures that alerts are told from: gauges as they are, and the growth of counters."""

from prometheus_client.metrics_core import Metric

from actors.telemetry.figures import LEAST_SECONDS, SECONDS_MAX, STEP_SECONDS, History, counted_in, gauges_in
from actors.telemetry.metrics import Metrics
from actors.telemetry.metrics_page import Reports


def families(failures: int = 0, waiting: int = 0) -> list[Metric]:
    metrics = Metrics()
    metrics.store_failures.add((), failures)
    metrics.refusals.add(("RATE_LIMITED",), 50)
    metrics.watch("deposits_waiting", "of a test", lambda: waiting)
    return metrics.families()


def test_a_counter_grows_from_what_it_was_when_the_span_began() -> None:
    """An old value is no growth; nor is the first report of a process that ran before."""
    history = History()
    history.keep(families(5), 0.0)
    assert history.grown(counted_in(families(5)), 0.0)[300]["store_failures"] == 0
    history.keep(families(5), 100.0)
    grown = history.grown(counted_in(families(7)), 200.0)
    assert grown[300]["store_failures"] == 2 and grown[300]["refusals"] == 0
    history.keep(families(7), 200.0)
    later = history.grown(counted_in(families(7)), 490.0)
    assert (later[300]["store_failures"], later[600]["store_failures"]) == (0, 2)


def test_a_history_is_bounded_and_forgets() -> None:
    history = History()
    for second in range(3_000):
        history.keep([], float(second))
    assert len(history._values) <= SECONDS_MAX / STEP_SECONDS + 1


def test_what_waits_is_told_only_of_a_span_that_is_wholly_known() -> None:
    history = History()
    history.keep(families(waiting=3), 0.0)
    assert history.least(counted_in(families(waiting=3)), 30.0) == {}
    for at in range(15, LEAST_SECONDS + 30, 15):
        history.keep(families(waiting=2), float(at))
    now = float(LEAST_SECONDS + 15)
    assert history.least(counted_in(families(waiting=5)), now) == {"deposits_waiting": 2.0}
    assert history.least(counted_in(families(waiting=0)), now) == {"deposits_waiting": 0.0}


def test_a_report_is_told_with_its_machine_and_its_memory() -> None:
    reports = Reports("10.0.0.9", lambda: 0.25)
    reports.keep("gateway-1", families(waiting=4), 0.0, 1_700.0)
    gateway, machine = reports.figures()
    assert (gateway.machine, gateway.process, gateway.at) == ("10.0.0.9", "gateway-1", 1_700.0)
    assert gateway.gauges["deposits_waiting"] == 4 and gauges_in(families(waiting=4)) == gateway.gauges
    assert machine.gauges == {"machine_memory_available_ratio": 0.25}
