"""Figures of billed calls: comparisons, targets, tables and the file."""

import orjson

from bench.calls import Exactness, Results, Row
from bench.figures import Load, in_ms, percentile
from bench.scenario import console
from bench.systems import BASELINE, GATEWAY, NOOP, UPSTREAM


def row(system: str, connections: int, per_second: int, p50_ms: float, p99_ms: float = 1.0) -> Row:
    load = Load("wrk", connections, 2.0, per_second * 2, 0, p50_ms, p99_ms)
    return Row(system, load, {"shard": 0.75, "other": 0.25}, 150_000_000, per_second * 2 + 7)


def test_calls_per_second_and_cpu_of_a_call() -> None:
    """Good answers only, over the length of the step; a step without any answer divides nothing by zero."""
    found = row(GATEWAY, 64, 500, 1.0)
    assert (found.load.per_second, found.cpu_us_per_call, found.uncounted_credits) == (500, 1_000, 7)
    nothing = row(GATEWAY, 64, 0, 1.0)
    assert (nothing.load.per_second, nothing.cpu_us_per_call) == (0, 0)


def test_ratio_and_added_latency_compare_equal_connections() -> None:
    """Never a step of 8 connections with one of 64; a figure that was not measured is None, not zero."""
    found = Results([row(GATEWAY, 64, 3000, 20.0), row(BASELINE, 64, 600, 90.0), row(UPSTREAM, 8, 9000, 0.5)])
    assert found.ratio(64) == 5.0
    assert found.ratio(8) is None
    assert found.added_ms(64) is None
    found.rows += [row(GATEWAY, 8, 100, 3.0), row(NOOP, 64, 6000, 10.0)]
    assert found.added_ms(8) == 2.5
    assert (found.ratio(64, GATEWAY, NOOP), found.ratio(64, BASELINE, NOOP)) == (0.5, 0.1)


def test_credits_off_by_is_debited_beyond_answered() -> None:
    """Above zero: charged without an answer; below: answered without a charge."""
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
    found = Results(rows, [Exactness(GATEWAY, 10, 0, 10, True)], {"a": 10**9, "b": 10**9})
    # Ratio 4.998, 3,500/s, p99 100, p50 added at 1 and at 8 connections, credits off by, idle memory.
    assert [target.met for target in found.targets()] == [False, True, True, True, None, True, False]
    assert [target.met for target in Results().targets()] == [None] * 7


def test_every_table_and_the_file_have_the_figures() -> None:
    rows = [row(BASELINE, 64, 500, 90.0), row(GATEWAY, 64, 3000, 20.0)]
    found = Results(rows, [Exactness(GATEWAY, 4_321, 0, 4_321, True)], {"launcher": 200_000_000})
    with console.capture() as shown:
        found.show()
    for text in ("3,000", "6.00", "125", "150", "4321", "launcher", "shard", "200", "yes"):
        assert text in shown.get(), text
    written = orjson.loads(orjson.dumps(found.written()))
    assert [row["per_second"] for row in written["rows"]] == [500.0, 3000.0]
    assert written["exactness"][0]["off_by"] == 0 and written["idle_bytes"] == {"launcher": 200_000_000}
    assert len(written["targets"]) == 7


def test_percentiles_by_nearest_rank() -> None:
    """Of many values, of one, and of none; delays are seconds and are shown in milliseconds."""
    values = [float(value) for value in range(1, 101)]
    assert (percentile(values, 50), percentile(values, 99)) == (51.0, 100.0)
    assert (percentile([], 50), percentile([7.0], 99)) == (0.0, 7.0)
    found = in_ms([0.001 * number for number in range(1, 102)], "x_")
    assert found == {"x_p50_ms": 51.0, "x_p99_ms": 100.0, "x_max_ms": 101.0}
    assert set(in_ms([]).values()) == {0.0}
