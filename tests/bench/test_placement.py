"""The simulation of placements: nothing is lost, nobody is beyond his bound, and the page has its table."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.placement import (
    BUSY,
    OWNERS_MAX,
    QUIET,
    RATES,
    Costs,
    account_rates,
    bounded,
    in_blocks,
    owners_for,
    placed,
    row_of,
    table,
)

PAGE = Path(__file__).parents[2] / "docs" / "costs.md"


@pytest.mark.parametrize("costs", [BUSY, QUIET])
def test_the_pages_table_is_what_the_simulation_gives(costs: Costs) -> None:
    rows = [row_of(placed(rate, costs), costs) for rate in RATES]
    assert table(rows) in PAGE.read_text(encoding="utf-8"), "run `python -m bench placement`, and put its table there"


def test_rates_follow_zipf_below_the_limit_and_add_up() -> None:
    rates = account_rates(1_000, 50, 1.0, 100.0)
    assert sum(rates) == pytest.approx(1_000) and max(rates) == 100.0
    below = [rate * rank for rank, rate in enumerate(rates, 1) if rate < 100.0]
    assert max(below) == pytest.approx(min(below)), "the rest is as 1 by its rank"
    with pytest.raises(AssertionError):
        account_rates(1_000, 9, 1.0, 100.0)


@given(st.lists(st.floats(0, 100), min_size=1, max_size=40), st.floats(1.0, 3.0))
def test_what_is_beyond_the_bound_goes_to_those_with_the_least(loads: list[float], most: float) -> None:
    found = bounded(loads, most)
    assert sum(found) == pytest.approx(sum(loads))
    mean = sum(loads) / len(loads)
    assert all(after <= mean * most + 1e-6 for after in found)
    assert all(after >= min(before, mean * most) - 1e-6 for before, after in zip(loads, found, strict=True))


def test_blocks_have_all_and_owners_are_as_many_as_the_busiest_needs() -> None:
    assert in_blocks([1.0] * 10, 4) == [3.0, 2.0, 3.0, 2.0]
    even = [10_000 / 1_024] * 1_024
    assert owners_for(even, 50.0) == 1
    assert owners_for([*even[1:], 10_000.0], 50.0) == 5, "one shard has half of all calls, and few neighbours beside it"
    assert owners_for([20_000.0, *even[1:]], 50.0) == OWNERS_MAX, "no number divides a shard"
