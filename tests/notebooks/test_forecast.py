"""The forecast of the notebook on costs, on spending whose rule is known."""

import sys

import pytest

from tests.notebooks.executing import FOLDER

numpy = pytest.importorskip("numpy")
sys.path.append(str(FOLDER))

import forecast  # noqa: E402 - it stands beside the notebooks.


def bursts(seed: int, spans: int) -> list[float]:
    """Spending whose level lasts for some spans: neighbours are alike, as they are in real use."""
    generator, level, found = numpy.random.default_rng(seed), 10.0, []
    for _ in range(spans):
        level = 10 + 0.6 * (level - 10) + generator.normal(0, 2)
        found.append(max(0.0, level + generator.normal(0, 1)))
    return found


def test_the_interval_has_most_of_the_true_futures() -> None:
    """Rule: an interval of 80 % has between 65 and 92 % of what happens; the shortness of a history costs some.
    Where neighbouring spans are taken for independent, it has fewer."""
    shares = {}
    for block in (1, 6):
        hits = 0
        for seed in range(120):
            whole = bursts(seed, 120)
            sums = forecast.futures(whole[:60], 60, count=300, block=block, seed=seed).sum(axis=1)
            low, _, high = forecast.interval(sums)
            hits += low <= sum(whole[60:]) <= high
        shares[block] = hits / 120
    assert 0.65 <= shares[6] <= 0.92 and shares[1] < shares[6], shares


def test_even_spending_has_one_end() -> None:
    """A balance of 100 at 5 a span lasts 20 spans, in each history; without spending it lasts for ever."""
    assert set(forecast.spans_left([5] * 10, 100)) == {20.0}
    assert forecast.interval(forecast.spans_left([0] * 10, 100)) == (numpy.inf, numpy.inf, numpy.inf)
    assert forecast.futures([5] * 7, 9).shape == (2_000, 9) and forecast.futures([5] * 7, 9).sum(axis=1).max() == 45


def test_the_same_history_has_the_same_forecast() -> None:
    history = bursts(1, 30)
    assert (forecast.spans_left(history, 1_000) == forecast.spans_left(history, 1_000)).all()
    low, middle, high = forecast.interval(forecast.spans_left(history, 1_000))
    assert low < middle < high and abs(middle - 1_000 / numpy.mean(history)) < 3
