"""The figures of paired races."""

from actors.sends.core import WINDOW_SLOTS
from bench.races import ALL_LEGS, Round, compare


def test_rounds_are_compared_in_pairs() -> None:
    """A leg that did not land it counts as the whole window, so losses cannot make a leg look fast."""
    rounds = [
        Round({ALL_LEGS: 1, "local_rpc": 1, "jito": 9, "tpu_quic": WINDOW_SLOTS}),
        Round({ALL_LEGS: 9, "local_rpc": 17, "jito": 1, "tpu_quic": 9}),
    ]
    found = compare(rounds)
    assert found["tpu_quic"] == {"landed": 1, "mean": 19.5, "p50": 30, "p90": 30, "sooner": 1, "later": 0}
    assert (found["jito"]["sooner"], found["jito"]["later"]) == (1, 1)
    assert found[ALL_LEGS]["mean"] == 5 and found["local_rpc"]["sooner"] == 1
