from hypothesis import given
from hypothesis import strategies as st

from actors.upstream.node_health import Commitment, NodeScore, Probe, lag_slots, slot_at

GOOD = Probe(True, slot=100, block_height=90, version="4.0", latency_ms=10)
BAD = Probe(False)


def test_a_run_counts_from_the_last_turn():
    """Failures and successes in a row are of the latest run alone."""
    score = NodeScore("a")
    for probe, failures, successes in ((BAD, 1, 0), (BAD, 2, 0), (GOOD, 0, 1), (GOOD, 0, 2), (BAD, 1, 0)):
        score = score.after(probe)
        assert (score.failures_in_a_row, score.successes_in_a_row) == (failures, successes)


def test_what_a_failed_probe_cannot_say_stays_known():
    """The last slot and latency survive an outage."""
    score = NodeScore("a").after(GOOD).after(BAD)
    assert (score.best_slot, score.latency_ms) == (100, 10)


@given(st.lists(st.integers(0, 5_000), min_size=1))
def test_latency_stays_within_what_was_measured(latencies):
    """An average is never outside its values."""
    score = NodeScore("a")
    for latency_ms in latencies:
        score = score.after(Probe(True, latency_ms=latency_ms))
    assert min(latencies) <= score.latency_ms <= max(latencies)


def test_lag_is_against_the_best_slot_any_node_named():
    """A node is behind the best known slot, its own earlier ones included."""
    ahead, behind = NodeScore("a").after(GOOD), NodeScore("b").after(Probe(True, slot=60))
    assert lag_slots(behind, [ahead, behind]) == 40
    assert lag_slots(ahead, [ahead, behind]) == 0
    assert lag_slots(NodeScore("c"), [ahead]) == 0


def test_the_slot_at_a_commitment_is_the_one_that_was_seen_there():
    """What a probe did not ask is at least what is final: nobody is promised a slot that was not seen."""
    probe = Probe(True, slot=60, processed_slot=92)
    assert [slot_at(probe, level) for level in Commitment] == [92, 60, 60]
    assert slot_at(None, Commitment.FINALIZED) is None


def test_one_absurd_slot_does_not_make_every_node_lag_for_ever():
    """A node that keeps naming lower slots than its own best was wrong about that one; a short lag is still seen."""
    score = NodeScore("a").after(GOOD).after(Probe(True, slot=10**15))
    for slot in range(101, 200):
        score = score.after(Probe(True, slot=slot))
        assert lag_slots(score, [score]) == 10**15 - slot
    score = score.after(BAD).after(Probe(True, slot=200))
    assert (score.best_slot, lag_slots(score, [score])) == (200, 0)
    assert score.after(Probe(True, slot=150)).best_slot == 200
