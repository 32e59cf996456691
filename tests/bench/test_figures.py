"""Figures of a step, comparisons and targets."""

from bench.figures import (
    BASELINE,
    GATEWAY,
    NOOP,
    UPSTREAM,
    Exactness,
    Load,
    Row,
    added_ms,
    ratio,
    verdicts,
)


def row(system: str, connections: int, per_second: int, p50_ms: float, p99_ms: float = 1.0) -> Row:
    load = Load("wrk", connections, 2.0, per_second * 2, 0, p50_ms, p99_ms)
    return Row(system, load, cpu_seconds_by_name={"a": 0.75, "b": 0.25}, memory_bytes_max=1, debited_credits=None)


def test_calls_per_second_and_cpu_per_thousand() -> None:
    """Good answers only, over the length of the step; a step without any answer divides nothing by zero."""
    found = row(GATEWAY, 64, 500, 1.0)
    assert found.load.per_second == 500
    assert found.cpu_seconds_per_1000 == 1.0
    nothing = row(GATEWAY, 64, 0, 1.0)
    assert (nothing.load.per_second, nothing.cpu_seconds_per_1000) == (0, 0)


def test_ratio_and_added_latency_compare_equal_connections() -> None:
    """Never a step of 8 connections with one of 64; what was not measured is None, not zero."""
    rows = [row(GATEWAY, 64, 3000, 20.0), row(BASELINE, 64, 600, 90.0), row(UPSTREAM, 8, 9000, 0.5)]
    assert ratio(rows, 64) == 5.0
    assert ratio(rows, 8) is None
    assert added_ms(rows, 64) is None
    assert added_ms([*rows, row(GATEWAY, 8, 100, 3.0)], 8) == 2.5


def test_every_figure_is_also_a_share_of_the_hosts_own_no_op() -> None:
    """So that figures of different minutes and machines can be compared."""
    rows = [row(NOOP, 64, 6000, 10.0), row(GATEWAY, 64, 3000, 20.0), row(BASELINE, 64, 600, 90.0)]
    assert ratio(rows, 64, GATEWAY, NOOP) == 0.5
    assert ratio(rows, 64, BASELINE, NOOP) == 0.1
    assert ratio(rows[1:], 64, GATEWAY, NOOP) is None


def test_credits_off_by_is_debited_beyond_answered() -> None:
    """Above zero: charged for nothing; below: answered for nothing."""
    assert Exactness(GATEWAY, 100, 0, 101, True).off_by == 1
    assert Exactness(GATEWAY, 100, 0, 99, True).off_by == -1


def test_targets_are_met_missed_or_not_measured() -> None:
    """Each target stands by itself; one that was not measured is neither met nor missed."""
    rows = [
        row(GATEWAY, 64, 2999, 20.0),
        row(BASELINE, 64, 600, 90.0),
        row(GATEWAY, 128, 3500, 30.0, p99_ms=100.0),
        row(GATEWAY, 1, 300, 2.6),
        row(UPSTREAM, 1, 9000, 0.1),
    ]
    found = [verdict.met for verdict in verdicts(rows, [Exactness(GATEWAY, 10, 0, 10, True)], {"a": 10**9, "b": 10**9})]
    # Ratio 4.998, 3,500/s, p99 100, p50 added at 1 and at 8 connections, credits off by, idle memory.
    assert found == [False, True, True, True, None, True, False]
    assert [verdict.met for verdict in verdicts([], [], None)] == [None] * 7
