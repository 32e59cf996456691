"""Smoke: the hand-written gateway in front of the constant node, for real, with few calls."""

from bench import load, systems
from bench.processes import tree


def test_fifty_calls_through_the_baseline_are_debited_exactly() -> None:
    """The yardstick works: it answers, it debits what it answered, it refuses an unknown key, it leaves no process."""
    with systems.upstream() as constant, systems.baseline(constant.url, workers=1) as baseline:
        assert baseline.balance is not None
        before = baseline.balance()
        seen = load.counted(baseline.url, baseline.api_key, connections=5, calls=50)
        assert (seen.answered, seen.errors) == (50, 0)
        assert before - baseline.balance() == 50
        stranger = load.counted(baseline.url, "unknown", connections=1, calls=3)
        assert (stranger.answered, stranger.errors) == (0, 3)
        assert before - baseline.balance() == 50
        roots = (*constant.pids(), *baseline.pids())
        assert all(tree(pid) for pid in roots)
    assert not any(tree(pid) for pid in roots)
