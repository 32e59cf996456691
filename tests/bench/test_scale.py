"""The cost of a call by part, and ratios of one round."""

import pytest

from bench.figures import Load
from bench.links import Passed
from bench.scale import PARTS, Step, figures_of, spent_by_part, together


def step(replicas_us: float, errors: int = 0, reads: int = 100) -> Step:
    cpu = dict.fromkeys(PARTS, 0.0) | {"HAProxy": 50.0, "replicas": replicas_us}
    link = {"replicas to owners": Passed(3_000, 6_000, 50, reads), "clients to HAProxy": Passed()}
    return Step(Load("python", 64, 1.0, 1_000, errors, 1.0, 2.0), cpu, link, 500.0)


def test_a_ratio_is_of_two_steps_of_one_round() -> None:
    """A machine that becomes slower between two rounds changes no ratio."""
    found = figures_of([step(150), step(350, errors=1)], [step(50), step(150)])
    assert (found["ratio"], found["CPU µs a call"], found["errors"]) == (2.0, 300.0, 1)
    assert (found["replicas µs"], found["HAProxy µs"], found["owners µs"]) == (250.0, 50.0, 0.0)
    assert found["replicas to owners, bytes a call"] == 9.0
    assert found["replicas to owners, calls a message"] == 10.0
    assert "clients to HAProxy, bytes a call" not in found, "nothing was seen there"


def test_processor_time_goes_to_the_part_of_its_process() -> None:
    """One that started meanwhile counts from zero, and one that nobody knows is other."""
    before, after = {(1, 0.0): 1.0}, {(1, 0.0): 3.0, (2, 0.0): 0.5, (3, 0.0): 0.25}
    found = spent_by_part(before, after, {1: "owners", 2: "PostgreSQL"})
    assert found == {"HAProxy": 0, "replicas": 0, "owners": 2.0, "PostgreSQL": 0.5, "other": pytest.approx(0.25)}


def test_products_beside_each_other_count_as_one() -> None:
    """Their calls and errors are added, the worst p99 holds for all."""
    found = together([Load("python", 64, 2.0, 1_000, 1, 1.0, 2.0), Load("python", 64, 2.0, 3_000, 0, 3.0, 9.0)])
    assert found == Load("python", 128, 2.0, 4_000, 1, 2.0, 9.0)
    assert found.per_second == 2_000.0
