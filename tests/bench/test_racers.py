"""Which figures of several racers make a run wrong."""

from bench.racers import wrong_figures


def test_a_lost_or_doubled_send_is_wrong_and_one_that_was_never_taken_is_told() -> None:
    """A send that met a dead racer is unknown to its caller, and free."""
    flood = {"never taken": 3, "landed": 7, "charged": 350, "calls with two tickets": 0, "without outcome": 0}
    assert wrong_figures({"flood": flood}) == []
    assert wrong_figures({"flood": flood, "moves": flood | {"without outcome": 1}}) == ["without outcome"]
