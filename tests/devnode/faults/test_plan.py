import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from devnode.faults import plan as faults_plan
from devnode.faults.plan import CallFate, FaultPlan, Late, Lost, Passes, PlanError, Stream, changed, read_plan

SIGNATURES = [f"signature{number}" for number in range(2_000)]


def test_a_plan_survives_its_json_form() -> None:
    """POST accepts the JSON that GET returns."""
    plan = read_plan({"seed": 7, "sends": {"tpu": {"drop_share": 0.5}}, "calls": {"*": {"hang_share": 1}}})
    assert plan.sends.tpu.drop_share == 0.5 and plan.sends.rpc.drop_share == 0
    assert read_plan(plan.as_json()) == plan


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"sends": {"rpc": {"drop_share": 1.5}}}, "$.sends.rpc.drop_share"),
        ({"sends": {"rpc": {"drop": 1}}}, "drop"),
        ({"sends": {"gossip": {}}}, "gossip"),
        ({"slots": {"fork_blocks": 0}}, "$.slots.fork_blocks"),
        ({"node": {"lag_slots": "3"}}, "$.node.lag_slots"),
        ({"calls": {"getSlot": {"hang_ms": 0}}}, "$.calls[...].hang_ms"),
        ({"seed": -1}, "$.seed"),
        ([], "object"),
    ],
)
def test_the_error_of_a_bad_setting_names_the_field(fields: object, place: str) -> None:
    with pytest.raises(PlanError) as refused:
        read_plan(fields)
    assert place in str(refused.value)


def test_a_change_leaves_other_settings_alone() -> None:
    """The change is a merge patch: objects are merged, null resets a setting, a bad patch changes nothing."""
    plan = read_plan({"seed": 7, "sends": {"rpc": {"drop_share": 0.5}}, "calls": {"getSlot": {"hang_share": 1}}})
    more = changed(plan, {"sends": {"tpu": {"drop_share": 1}}, "calls": {"getBlock": {"garbage_share": 1}}})
    assert more.sends.rpc.drop_share == 0.5 and more.sends.tpu.drop_share == 1 and more.seed == 7
    assert set(more.calls) == {"getSlot", "getBlock"}
    less = changed(more, {"sends": {"rpc": None}, "calls": {"getSlot": None}})
    assert less.sends.rpc.drop_share == 0 and set(less.calls) == {"getBlock"}
    timed = changed(less, {"calls": {"getBlock": {"hang_ms": 50, "retry_after_seconds": None}}})
    assert timed.calls["getBlock"].hang_ms == 50 and timed.calls["getBlock"].retry_after_seconds is None
    with pytest.raises(PlanError):
        changed(plan, {"sends": 3})


@given(share=st.floats(0, 1), seed=st.integers(0, 2**63 - 1), slot=st.integers(0, 2**63))
def test_the_same_subject_has_the_same_fate(share: float, seed: int, slot: int) -> None:
    """A decision depends on the seed and its subject only, not on the order of the decisions."""
    fields = {"seed": seed, "sends": {"rpc": {"drop_share": share, "delay_share": share}}}
    fates = [
        faults_plan.send_fate(read_plan(fields), "rpc", slot, signature)
        for signature in [*SIGNATURES[:20], *reversed(SIGNATURES[:20])]
    ]
    assert fates[:20] == fates[:19:-1]


def test_about_the_set_share_of_sends_is_hit() -> None:
    """Another seed hits other sends; a share of 0 hits none and a share of 1 hits all."""

    def dropped(share: float, seed: int = 0) -> set[str]:
        plan = read_plan({"seed": seed, "sends": {"tpu": {"drop_share": share}}})
        return {one for one in SIGNATURES if faults_plan.send_fate(plan, "tpu", 5, one) == Lost()}

    assert 500 < len(dropped(0.3)) < 700
    assert dropped(0.3) != dropped(0.3, seed=1)
    assert dropped(0.0) == set() and dropped(1.0) == set(SIGNATURES)


def test_a_retry_in_a_later_slot_has_a_new_fate() -> None:
    plan = read_plan({"sends": {"rpc": {"drop_share": 0.5}}})
    fates = {faults_plan.send_fate(plan, "rpc", slot, SIGNATURES[0]) for slot in range(50)}
    assert fates == {Lost(), Passes()}


def test_each_leg_has_its_own_faults() -> None:
    plan = read_plan({"sends": {"bundle": {"drop_share": 1}, "tpu": {"delay_share": 1, "delay_slots": 9}}})
    assert faults_plan.send_fate(plan, "bundle", 1, "x") == Lost()
    assert faults_plan.send_fate(plan, "tpu", 1, "x") == Late(9)
    assert faults_plan.send_fate(plan, "rpc", 1, "x") == Passes()


def test_each_slot_is_skipped_or_not_by_itself() -> None:
    """The same slots are skipped from whichever slot the count starts; the others have blocks."""
    plan = read_plan({"slots": {"skip_share": 0.4}})
    made, slot = [], 0
    while slot < 3_000:
        made.append(slot)
        slot += faults_plan.skipped_after(plan, slot) + 1
    assert 1_600 < len(made) < 2_000
    assert all(faults_plan.skipped_after(plan, slot - 1) == 0 for slot in made[1:])
    assert faults_plan.skipped_after(read_plan({"slots": {"skip_share": 1}}), 5) == faults_plan.SKIP_SLOTS_MAX
    assert faults_plan.skipped_after(FaultPlan(), 5) == 0


def test_forks_begin_at_their_share_of_slots() -> None:
    plan = read_plan({"slots": {"fork_share": 0.2, "fork_blocks": 3}})
    begun = [faults_plan.forked_blocks(plan, slot) for slot in range(2_000)]
    assert set(begun) == {0, 3} and 300 < begun.count(3) < 500
    assert faults_plan.forked_blocks(FaultPlan(), 1) == 0


def test_a_call_has_one_fate_of_its_method() -> None:
    """The method's own entry counts, or "*" for methods without one; the shares of a method add up."""
    plan = read_plan({"calls": {"*": {"too_many_share": 1}, "getSlot": {"hang_share": 0.25, "garbage_share": 0.25}}})
    fates = [faults_plan.call_fate(plan, "getSlot", number) for number in range(2_000)]
    assert set(fates) == {CallFate.HANGS, CallFate.GARBAGE, CallFate.ANSWERED}
    assert 400 < fates.count(CallFate.HANGS) < 600 and 400 < fates.count(CallFate.GARBAGE) < 600
    assert faults_plan.call_fate(plan, "getBlock", 0) is CallFate.TOO_MANY
    assert faults_plan.call_fate(FaultPlan(), "getBlock", 0) is CallFate.ANSWERED
    lost = read_plan({"calls": {"getSlot": {"lost_share": 1}}})
    assert faults_plan.call_fate(lost, "getSlot", 3) is CallFate.LOST


def test_each_stream_has_its_own_faults() -> None:
    silent = read_plan({"streams": {"grpc": {"silent": True}}})
    assert faults_plan.loses(silent, Stream.GRPC, 1) and not faults_plan.loses(silent, Stream.PUBSUB, 1)
    jumpy = read_plan({"streams": {"pubsub": {"lost_slot_share": 0.3}}})
    assert 200 < sum(faults_plan.loses(jumpy, Stream.PUBSUB, slot) for slot in range(1_000)) < 400


def test_plans_are_frozen_values() -> None:
    """Nothing can change a plan in place while decisions depend on it."""
    with pytest.raises(AttributeError):
        FaultPlan().seed = 1  # type: ignore[misc]
    assert msgspec.structs.replace(FaultPlan(), seed=3) == read_plan({"seed": 3})


def test_about_the_set_share_of_blocks_is_dead() -> None:
    plan = read_plan({"slots": {"dead_share": 0.5}})
    assert 400 < sum(faults_plan.is_dead(plan, slot) for slot in range(1_000)) < 600
    assert not faults_plan.is_dead(FaultPlan(), 1)


def test_single_faults_are_validated_like_settings() -> None:
    assert faults_plan.read_once({"lost_slots": {"grpc": 3}}).lost_slots.grpc == 3
    assert faults_plan.read_once({"cut_connections": {"grpc": True}}).cut_connections.grpc
    with pytest.raises(PlanError, match="fork_blocks"):
        faults_plan.read_once({"fork_blocks": 99})
