"""Figures of one process: bounded labels, integers until somebody asks."""

from prometheus_client import generate_latest

from actors import metrics
from actors.catalog import METHODS
from actors.metrics import FirstLabels, Metrics


def test_labels_are_bounded() -> None:
    """Hostile input 13: unknown methods share one series, and so do all hosts after the first few."""
    assert metrics.method_label("getSlot") == "getSlot"
    assert metrics.method_label("x" * 1_000_000) == "other"
    assert metrics.bounded_label("__proto__", {"a"}) == "other"
    hosts = FirstLabels(2)
    assert [hosts.label(name) for name in ("a", "b", "c", "a")] == ["a", "b", "other", "a"]


def test_counts_and_present_numbers_are_rendered_with_their_units() -> None:
    """The names end in a unit or in `total`, as Prometheus wants."""
    figures = Metrics()
    figures.call_ended("getSlot", "SUCCESS", 1, 0.004)
    figures.call_ended("getSlot", "RELEASED", 0, 0.004)
    figures.refusals.add(("RATE_LIMITED",))
    figures.ledger_credits.add(("debit",), 25)
    waiting = [1, 2, 3]
    figures.watch("entries_waiting", lambda: len(waiting))
    text = generate_latest(figures.registry).decode()
    assert 'ledger_gateway_calls_total{method="getSlot",outcome="SUCCESS"} 1.0' in text
    assert 'ledger_gateway_credits_charged_total{method="getSlot"} 1.0' in text
    assert 'ledger_gateway_refusals_total{error="RATE_LIMITED"} 1.0' in text
    assert 'ledger_gateway_ledger_credits_total{type="debit"} 25.0' in text
    assert 'ledger_gateway_now{of="entries_waiting"} 3.0' in text
    assert "ledger_gateway_call_seconds_count 2.0" in text


def test_invented_methods_make_one_series() -> None:
    """However many method names callers invent, the number of series stays that of the catalog."""
    figures = Metrics()
    for number in range(len(METHODS) * 3):
        figures.calls.add((metrics.method_label(f"invented_{number}"), "refused"))
    assert generate_latest(figures.registry).decode().count("ledger_gateway_calls_total{") == 1


def test_two_processes_in_one_do_not_share_figures() -> None:
    """The library's global registry is not used."""
    first, second = Metrics(), Metrics()
    first.call_ended("getSlot", "SUCCESS", 1, 0.1)
    assert "getSlot" not in generate_latest(second.registry).decode()
