"""The number of replicas follows their load, and does not swing."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.gateway.autoscaling import METRIC, LoadMeter, replicas_for


def wanted(target: int, *loads: float) -> int:
    metrics = {METRIC: {f"replica-{number}": load for number, load in enumerate(loads)}} if loads else {}
    number, state = replicas_for(SimpleNamespace(target_num_replicas=target, aggregated_metrics=metrics))
    assert state == {}
    return number


def test_load_beyond_the_aim_asks_for_more_and_only_much_less_asks_for_fewer() -> None:
    assert wanted(1, 0.9) == 1
    assert wanted(1, 1.5) == 2
    assert wanted(2, 1.6, 1.6) == 4
    assert wanted(2, 0.45, 0.45) == 2, "one replica would be nine tenths as busy as it may be: the number would swing"
    assert wanted(2, 0.35, 0.35) == 1
    assert wanted(4, 0.0, 0.0, 0.0, 0.0) == 1, "never none"


def test_a_replica_that_has_not_reported_is_not_taken_away() -> None:
    """It was asked for because of load, and takes its share only later."""
    assert wanted(3) == 3
    assert wanted(3, 0.9, 0.1) == 3
    assert wanted(3, 0.1) == 3


@given(st.lists(st.floats(0, 3), min_size=1, max_size=20))
def test_a_number_that_was_reached_under_a_load_is_kept_under_it(loads: list[float]) -> None:
    """The same work, spread over the wanted number, asks for no other number."""
    number = wanted(len(loads), *loads)
    assert wanted(number, *[sum(loads) / number] * number) == number


def test_a_reading_is_of_the_time_since_the_one_before() -> None:
    seconds, processor = iter([0.0, 10.0, 20.0, 20.0]), iter([1.0, 4.0, 4.0, 5.0])
    meter = LoadMeter(0.6, lambda: next(seconds), lambda: next(processor))
    assert meter.read() == pytest.approx(0.5)
    assert meter.read() == 0.0
    assert meter.read() == 0.0, "no time has passed"
