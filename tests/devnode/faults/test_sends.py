"""Drops that belong together, and the faults of leaders and connections."""

from collections import Counter
from itertools import groupby

from hypothesis import given
from hypothesis import strategies as st

from devnode.faults import plan as faults_plan
from devnode.faults.plan import Lost, TpuFate, read_plan

LEGS = ("rpc", "tpu", "bundle")
SIGNATURES = [f"signature {number}" for number in range(3_000)]


def dropped(fields: dict[str, object], leg: str, slot: int = 5) -> set[str]:
    plan = read_plan({"sends": fields})
    return {one for one in SIGNATURES if faults_plan.send_fate(plan, leg, slot, one) == Lost()}


def test_correlated_drops_hit_the_same_sends_on_every_leg() -> None:
    """The share of each leg stays the same; only with a correlation do all three legs lose a send more often."""
    share = {leg: {"drop_share": 0.3} for leg in LEGS}
    for correlation, least, most in ((0.0, 0.01, 0.05), (0.5, 0.12, 0.21), (1.0, 0.27, 0.33)):
        lost = [dropped({**share, "correlation": correlation}, leg) for leg in LEGS]
        assert all(0.27 < len(one) / len(SIGNATURES) < 0.33 for one in lost)
        assert least < len(set.intersection(*lost)) / len(SIGNATURES) < most


def test_drops_come_in_runs_of_slots() -> None:
    """In a run every send of the leg is lost, in the other slots none; the share of slots is the share set."""
    plan = read_plan({"sends": {"tpu": {"drop_share": 0.3, "run_slots": 8}}})
    lost = [faults_plan.send_fate(plan, "tpu", slot, "any") == Lost() for slot in range(8_000)]
    assert lost == [faults_plan.send_fate(plan, "tpu", slot, "other") == Lost() for slot in range(8_000)]
    assert 0.26 < sum(lost) / len(lost) < 0.34
    assert all(len(list(run)) % 8 == 0 for _, run in groupby(lost))
    assert faults_plan.send_fate(plan, "rpc", 5, "any") != Lost()


def test_correlated_runs_take_all_legs_out_together() -> None:
    runs = {leg: {"drop_share": 0.3, "run_slots": 4} for leg in LEGS}
    plan = read_plan({"sends": {**runs, "correlation": 1.0}})
    for slot in range(400):
        assert len({faults_plan.send_fate(plan, leg, slot, leg) for leg in LEGS}) == 1


@given(seed=st.integers(0, 2**63 - 1), number=st.integers(0, 10**6), share=st.floats(0, 1))
def test_a_connection_has_at_most_one_fault(seed: int, number: int, share: float) -> None:
    plan = read_plan({"seed": seed, "tpu": {"ignored_share": share, "refused_share": 1 - share}})
    assert faults_plan.tpu_fate(plan, 1, number) in (TpuFate.IGNORED, TpuFate.REFUSED)
    assert faults_plan.tpu_fate(plan, 1, number) == faults_plan.tpu_fate(plan, 1, number)
    assert faults_plan.tpu_fate(read_plan({"seed": seed}), 1, number) is TpuFate.SERVED


def test_connections_fail_at_their_shares() -> None:
    plan = read_plan({"tpu": {"ignored_share": 0.2, "refused_share": 0.2, "broken_share": 0.2}})
    fates = Counter(faults_plan.tpu_fate(plan, 2, number) for number in range(5_000))
    assert all(0.17 < fates[fate] / 5_000 < 0.23 for fate in set(TpuFate) - {TpuFate.SERVED})


def test_a_leader_skips_only_its_own_slots() -> None:
    plan = read_plan({"leaders": {"1": {"skip_share": 1}}})
    leaders = [0, 0, 0, 0, 1, 1, 1, 1, 2]
    assert faults_plan.skipped_after(plan, 3, leaders.__getitem__) == 4
    assert faults_plan.skipped_after(plan, 1, leaders.__getitem__) == 0
    assert faults_plan.skipped_after(plan, 5, leaders.__getitem__) == 2


def test_a_leader_is_a_number_or_all() -> None:
    plan = read_plan({"leaders": {"*": {"drop_share": 1}, "2": {"late_ms": 100}}})
    assert faults_plan.leader_drops(plan, 1, 5, "x") and not faults_plan.leader_drops(plan, 2, 5, "x")
    try:
        read_plan({"leaders": {"-1": {}}})
    except faults_plan.PlanError as error:
        assert "-1" in str(error)
    else:
        raise AssertionError("a leader that cannot exist was taken")
