import collections

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.provider_config import NodeConfig
from actors.upstream.breaker import FAILURES_MIN
from actors.upstream.method_lanes import Lane
from actors.upstream.node_health import Commitment, Probe
from actors.upstream.node_selection import MinSlot, NodeSelection, State, min_slot_of

LAG_MAX = 128
HERE = Probe(True, slot=1_000, processed_slot=1_032)
GONE = Probe(False)
BEHIND = Probe(True, slot=1_000 - LAG_MAX - 1, processed_slot=1_032 - LAG_MAX - 1)


def nodes_of(*nodes: tuple[int, str]) -> NodeSelection:
    """(weight, roles) of each; every one was probed and is well."""
    configs = [
        NodeConfig(name=f"n{number}", url="http://x", weight=weight, roles=tuple(roles.split()))
        for number, (weight, roles) in enumerate(nodes)
    ]
    selection = NodeSelection(configs, LAG_MAX, 1_000)
    for index in range(len(nodes)):
        selection.probed(index, HERE)
    return selection


def shares(selection: NodeSelection, calls: int, lane: Lane = Lane.CHEAP, of_history: bool = False) -> dict[int, int]:
    return collections.Counter(selection.choose(lane, of_history, 0) for _ in range(calls))


RW = "read send"


def test_calls_are_shared_by_weight():
    """To the call, not on average: nothing is left to chance."""
    assert shares(nodes_of((3, RW), (1, RW)), 400) == {0: 300, 1: 100}


def test_weight_0_is_asked_when_nobody_else_can():
    """And at once, not after a failure of the call."""
    selection = nodes_of((1, RW), (0, RW))
    assert shares(selection, 10) == {0: 10}
    selection.probed(0, GONE)
    assert shares(selection, 10) == {1: 10}


@pytest.mark.parametrize(
    ("lane", "of_history", "order"),
    [(Lane.CHEAP, False, [0, 1, 3]), (Lane.HEAVY, True, [3, 0, 1]), (Lane.SEND, False, [0, 2])],
)
def test_roles_have_an_order(lane, of_history, order):
    """Reads: read, its spare, then archive. History: archive first. Sends: nodes for sends, and no other, ever."""
    selection = nodes_of((1, RW), (0, "read"), (1, "send"), (1, "archive"))
    if lane is Lane.SEND:
        assert {selection.choose(lane, of_history, 0) for _ in range(4)} == set(order)
        assert selection.choose(lane, of_history, 0, tried=order) is None
        return
    for place in range(len(order) + 1):
        wanted = order[place] if place < len(order) else None
        assert selection.choose(lane, of_history, 0, tried=order[:place]) == wanted


@pytest.mark.parametrize("bad", [BEHIND, Probe(True, slot=1_000, behind=True)])
def test_a_node_behind_is_passed_over_while_others_are_there(bad):
    """By its slot or by its own word; before it stand even the spare ones, behind it those that fail."""
    selection = nodes_of((1, RW), (0, RW), (1, RW))
    selection.probed(0, bad)
    selection.probed(2, GONE)
    assert shares(selection, 5) == {1: 5}
    selection.probed(1, GONE)
    assert shares(selection, 5) == {0: 5}
    assert selection.choose(Lane.CHEAP, False, 0, worst=State.WELL) is None


def test_a_lag_ends_when_the_node_has_caught_up():
    """Exactly the limit is not more than the limit."""
    selection = nodes_of((1, RW), (1, RW))
    selection.probed(0, BEHIND)
    selection.probed(0, Probe(True, slot=1_000 - LAG_MAX))
    assert shares(selection, 4) == {0: 2, 1: 2}


def test_a_breaker_is_of_one_class_of_methods():
    """Blocks may fail where balances do not; but a send, which cannot be asked twice, is not tried there."""
    selection = nodes_of((1, RW), (1, RW))
    for _ in range(FAILURES_MIN):
        selection.all[0].breakers[Lane.HEAVY].ended(selection.all[0].breakers[Lane.HEAVY].begin(), False, 0)
    assert shares(selection, 4, Lane.HEAVY) == {1: 4}
    assert shares(selection, 4, Lane.CHEAP) == {0: 2, 1: 2}
    assert shares(selection, 4, Lane.SEND) == {1: 4}


def test_with_nobody_well_somebody_is_asked_all_the_same():
    """A refusal without having asked helps nobody."""
    selection = nodes_of((1, RW), (1, RW))
    for index in (0, 1):
        selection.probed(index, GONE)
    assert set(shares(selection, 4)) == {0, 1}


def test_three_good_probes_end_the_waiting_of_breakers():
    """A node that came back is tried, whatever time its breaker had left."""
    selection = nodes_of((1, RW), (1, RW))
    selection.probed(0, GONE)
    for _ in range(FAILURES_MIN):
        selection.all[0].breakers[Lane.CHEAP].ended(selection.all[0].breakers[Lane.CHEAP].begin(), False, 0)
    for _ in range(2):
        selection.probed(0, HERE)
        assert selection.state(0, Lane.CHEAP, 0) is State.FAILING
    selection.probed(0, HERE)
    assert selection.state(0, Lane.CHEAP, 0) is State.WELL


def test_a_read_that_needs_a_slot_goes_where_it_is():
    """By the commitment asked for; where nobody has it, the node that has come furthest says no itself."""
    selection = nodes_of((1, RW), (1, RW), (1, RW))
    selection.probed(1, Probe(True, slot=1_001, confirmed_slot=1_031, processed_slot=1_033))
    selection.probed(2, Probe(True, slot=1_002, confirmed_slot=1_020, processed_slot=1_020))

    def chosen(commitment: Commitment, slot: int) -> set[int | None]:
        min_slot = MinSlot(commitment, slot)
        return {selection.choose(Lane.CHEAP, False, 0, min_slot=min_slot) for _ in range(6)}

    assert chosen(Commitment.FINALIZED, 900) == {0, 1, 2}
    assert chosen(Commitment.FINALIZED, 1_002) == {2}
    assert chosen(Commitment.CONFIRMED, 1_021) == {1}
    assert chosen(Commitment.PROCESSED, 1_033) == {1}
    assert chosen(Commitment.FINALIZED, 5_000) == {2}
    selection.probed(2, GONE)
    assert chosen(Commitment.FINALIZED, 1_002) == {1}


def test_a_node_that_fails_is_not_trusted_with_a_slot_it_once_had():
    """The last node standing is asked, and says no itself."""
    selection = nodes_of((1, RW), (1, RW))
    for index in (0, 1):
        selection.probed(index, GONE)
    assert selection.choose(Lane.CHEAP, False, 0, min_slot=MinSlot(Commitment.FINALIZED, 5)) in (0, 1)


events = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.one_of(st.sampled_from([HERE, GONE, BEHIND]), st.tuples(st.sampled_from(list(Lane)), st.booleans())),
    ),
    max_size=60,
)


@given(events=events, tried=st.sets(st.integers(0, 2)), lane=st.sampled_from(list(Lane)))
def test_whatever_happened_the_choice_is_the_best_that_is_left(events, tried, lane):
    """Never one that was tried; never a worse state while a better one is left; never nobody while one is left."""
    selection = nodes_of((1, RW), (2, RW), (0, RW))
    for index, event in events:
        if isinstance(event, Probe):
            selection.probed(index, event)
        else:
            selection.all[index].breakers[event[0]].ended(selection.all[index].breakers[event[0]].begin(), event[1], 0)
    left = [index for index in range(3) if index not in tried]
    chosen = selection.choose(lane, False, 5, tried)
    if not left:
        assert chosen is None
        return
    assert chosen in left
    best = min(selection.state(index, lane, 5) for index in left)
    assert selection.state(chosen, lane, 5) == best


@pytest.mark.parametrize(
    ("params", "min_slot"),
    [
        (b'["k"]', None),
        (b'["k",{"minContextSlot":9}]', MinSlot(Commitment.FINALIZED, 9)),
        (b'[{"minContextSlot":9,"commitment":"processed"}]', MinSlot(Commitment.PROCESSED, 9)),
        (b'["k",{"minContextSlot":null}]', None),
        (b'["minContextSlot"]', None),
        (b'["t",{"minContextSlot":9,"preflightCommitment":"confirmed"}]', MinSlot(Commitment.CONFIRMED, 9)),
        (b'["t",{"minContextSlot":9,"commitment":{}}]', MinSlot(Commitment.FINALIZED, 9)),
        (b'["t",{"minContextSlot":9,"commitment":["processed"]}]', MinSlot(Commitment.FINALIZED, 9)),
    ],
)
def test_a_minimum_slot_is_read_from_the_parameters(params, min_slot):
    """minContextSlot counts at the commitment asked for."""
    assert min_slot_of(params) == min_slot
