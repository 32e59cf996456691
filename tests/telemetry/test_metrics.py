"""Figures of one process: plain numbers until somebody asks."""

from prometheus_client import generate_latest

from actors.calls import Outcome
from actors.telemetry.metrics import Metrics


def test_counts_and_present_numbers_are_rendered_with_their_units() -> None:
    """The names end in a unit or in `total`, as Prometheus wants."""
    figures = Metrics()
    figures.call_ended("getSlot", Outcome.ANSWERED, 1, 0.004)
    figures.call_ended("getSlot", Outcome.ANSWERED, 1, 0.004)
    figures.call_ended("getSlot", Outcome.RELEASED, 0, 0.004)
    figures.refusals.add(("RATE_LIMITED",))
    figures.ledger_credits.add(("debit",), 25)
    waiting = [1, 2, 3]
    figures.watch("entries_waiting", "Entries that wait.", lambda: 9)
    figures.watch("entries_waiting", "Entries that wait.", lambda: len(waiting))
    figures.watch("lag_slots", "Slots behind.", lambda: 7)
    figures.charged("accountSubscribe", 5)
    lines = generate_latest(figures.registry).decode().splitlines()
    assert 'ledger_gateway_calls_total{method="getSlot",outcome="answered"} 2.0' in lines
    assert 'ledger_gateway_calls_total{method="getSlot",outcome="released"} 1.0' in lines
    assert [line for line in lines if line.startswith("ledger_gateway_credits_charged_total")] == [
        'ledger_gateway_credits_charged_total{method="getSlot",outcome="answered"} 2.0',
        'ledger_gateway_credits_charged_total{method="accountSubscribe",outcome="answered"} 5.0',
    ]
    assert not any(line.startswith('ledger_gateway_calls_total{method="accountSubscribe') for line in lines)
    assert 'ledger_gateway_refusals_total{error="RATE_LIMITED"} 1.0' in lines
    assert 'ledger_gateway_ledger_credits_total{type="debit"} 25.0' in lines
    assert "ledger_gateway_entries_waiting 3.0" in lines and "ledger_gateway_lag_slots 7.0" in lines
    assert "# HELP ledger_gateway_lag_slots Slots behind." in lines


def test_a_histogram_counts_each_value_in_all_ranges_that_hold_it() -> None:
    """As Prometheus reads it: ranges are cumulative, and a value on a bound belongs to the range below it."""
    figures = Metrics()
    for rows in (1, 3, 4, 5_000):
        figures.commit_rows.observe(rows)
    lines = generate_latest(figures.registry).decode().splitlines()
    pairs = [line.rpartition(" ") for line in lines if line.startswith("ledger_gateway_commit_rows")]
    found = {name: float(value) for name, _, value in pairs}
    bounds = {"1.0": 1, "2.0": 1, "4.0": 3, "4096.0": 3, "+Inf": 4}
    assert {bound: found[f'ledger_gateway_commit_rows_bucket{{le="{bound}"}}'] for bound in bounds} == bounds
    assert (found["ledger_gateway_commit_rows_count"], found["ledger_gateway_commit_rows_sum"]) == (4, 5_008)


def test_a_call_whose_end_nobody_waited_for_has_no_time() -> None:
    """The time of an answer that no client was there for says nothing about the service."""
    figures = Metrics()
    figures.call_ended("getSlot", Outcome.CLIENT_GONE, 1, None)
    text = generate_latest(figures.registry).decode()
    assert 'outcome="client_gone"} 1.0' in text
    assert "ledger_gateway_call_seconds_count 0.0" in text


def test_two_processes_in_one_do_not_share_figures() -> None:
    """The library's global registry is not used."""
    first, second = Metrics(), Metrics()
    first.call_ended("getSlot", Outcome.ANSWERED, 1, 0.1)
    assert "getSlot" not in generate_latest(second.registry).decode()
