import collections

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.config import NodeConfig
from actors.upstream.breaker import FAILURES_MIN
from actors.upstream.method_lanes import Lane
from actors.upstream.node_health import Commitment, Probe
from actors.upstream.node_selection import Members, Need, State

LAG_MAX = 128
HERE = Probe(True, slot=1_000, processed_slot=1_032)
GONE = Probe(False)
BEHIND = Probe(True, slot=1_000 - LAG_MAX - 1, processed_slot=1_032 - LAG_MAX - 1)


def members_of(*nodes: tuple[int, str]) -> Members:
    """(weight, roles) of each; every one was probed and is well."""
    configs = [
        NodeConfig(name=f"n{number}", url="http://x", weight=weight, roles=tuple(roles.split()))
        for number, (weight, roles) in enumerate(nodes)
    ]
    members = Members(configs, LAG_MAX, 1_000)
    for index in range(len(nodes)):
        members.probed(index, HERE)
    return members


def shares(members: Members, calls: int, lane: Lane = Lane.CHEAP, of_history: bool = False) -> dict[int, int]:
    return collections.Counter(members.choose(lane, of_history, 0) for _ in range(calls))


RW = "read send"


def test_calls_are_shared_by_weight():
    """To the call, not on average: nothing is left to chance."""
    assert shares(members_of((3, RW), (1, RW)), 400) == {0: 300, 1: 100}


def test_weight_0_is_asked_when_nobody_else_can():
    """And at once, not after a failure of the call."""
    members = members_of((1, RW), (0, RW))
    assert shares(members, 10) == {0: 10}
    members.probed(0, GONE)
    assert shares(members, 10) == {1: 10}


@pytest.mark.parametrize(
    ("lane", "of_history", "order"),
    [(Lane.CHEAP, False, [0, 1, 3]), (Lane.HEAVY, True, [3, 0, 1]), (Lane.SEND, False, [0, 2])],
)
def test_roles_have_an_order(lane, of_history, order):
    """Reads: read, its spare, then archive. History: archive first. Sends: nodes for sends, and no other, ever."""
    members = members_of((1, RW), (0, "read"), (1, "send"), (1, "archive"))
    if lane is Lane.SEND:
        assert {members.choose(lane, of_history, 0) for _ in range(4)} == set(order)
        assert members.choose(lane, of_history, 0, tried=order) is None
        return
    for place in range(len(order) + 1):
        wanted = order[place] if place < len(order) else None
        assert members.choose(lane, of_history, 0, tried=order[:place]) == wanted


@pytest.mark.parametrize("bad", [BEHIND, Probe(True, slot=1_000, behind=True)])
def test_a_node_behind_is_passed_over_while_others_are_there(bad):
    """By its slot or by its own word; before it stand even the spare ones, behind it those that fail."""
    members = members_of((1, RW), (0, RW), (1, RW))
    members.probed(0, bad)
    members.probed(2, GONE)
    assert shares(members, 5) == {1: 5}
    members.probed(1, GONE)
    assert shares(members, 5) == {0: 5}
    assert members.choose(Lane.CHEAP, False, 0, worst=State.WELL) is None


def test_a_lag_ends_when_the_node_has_caught_up():
    """Exactly the limit is not more than the limit."""
    members = members_of((1, RW), (1, RW))
    members.probed(0, BEHIND)
    members.probed(0, Probe(True, slot=1_000 - LAG_MAX))
    assert shares(members, 4) == {0: 2, 1: 2}


def test_a_breaker_is_of_one_class_of_methods():
    """Blocks may fail where balances do not; but a send, which cannot be asked twice, is not tried there."""
    members = members_of((1, RW), (1, RW))
    for _ in range(FAILURES_MIN):
        members.ended(0, Lane.HEAVY, members.begin(0, Lane.HEAVY), False, 0)
    assert shares(members, 4, Lane.HEAVY) == {1: 4}
    assert shares(members, 4, Lane.CHEAP) == {0: 2, 1: 2}
    assert shares(members, 4, Lane.SEND) == {1: 4}


def test_with_nobody_well_somebody_is_asked_all_the_same():
    """A refusal without having asked helps nobody."""
    members = members_of((1, RW), (1, RW))
    for index in (0, 1):
        members.probed(index, GONE)
    assert set(shares(members, 4)) == {0, 1}


def test_three_good_probes_end_the_waiting_of_breakers():
    """A node that came back is tried, whatever time its breaker had left."""
    members = members_of((1, RW), (1, RW))
    members.probed(0, GONE)
    for _ in range(FAILURES_MIN):
        members.ended(0, Lane.CHEAP, members.begin(0, Lane.CHEAP), False, 0)
    for _ in range(2):
        members.probed(0, HERE)
        assert members.state(0, Lane.CHEAP, 0) is State.FAILING
    members.probed(0, HERE)
    assert members.state(0, Lane.CHEAP, 0) is State.WELL


def test_a_read_that_needs_a_slot_goes_where_it_is():
    """By the commitment asked for; where nobody has it, the node that has come furthest says no itself."""
    members = members_of((1, RW), (1, RW), (1, RW))
    members.probed(1, Probe(True, slot=1_001, confirmed_slot=1_031, processed_slot=1_033))
    members.probed(2, Probe(True, slot=1_002, confirmed_slot=1_020, processed_slot=1_020))

    def chosen(commitment: Commitment, slot: int) -> set[int | None]:
        need = Need(commitment, slot)
        return {members.choose(Lane.CHEAP, False, 0, need=need) for _ in range(6)}

    assert chosen(Commitment.FINALIZED, 900) == {0, 1, 2}
    assert chosen(Commitment.FINALIZED, 1_002) == {2}
    assert chosen(Commitment.CONFIRMED, 1_021) == {1}
    assert chosen(Commitment.PROCESSED, 1_033) == {1}
    assert chosen(Commitment.FINALIZED, 5_000) == {2}
    members.probed(2, GONE)
    assert chosen(Commitment.FINALIZED, 1_002) == {1}


def test_a_node_that_fails_is_not_trusted_with_a_slot_it_once_had():
    """The last node standing is asked, and says no itself."""
    members = members_of((1, RW), (1, RW))
    for index in (0, 1):
        members.probed(index, GONE)
    assert members.choose(Lane.CHEAP, False, 0, need=Need(Commitment.FINALIZED, 5)) in (0, 1)


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
    members = members_of((1, RW), (2, RW), (0, RW))
    for index, event in events:
        if isinstance(event, Probe):
            members.probed(index, event)
        else:
            members.ended(index, event[0], members.begin(index, event[0]), event[1], 0)
    left = [index for index in range(3) if index not in tried]
    chosen = members.choose(lane, False, 5, tried)
    if not left:
        assert chosen is None
        return
    assert chosen in left
    best = min(members.state(index, lane, 5) for index in left)
    assert members.state(chosen, lane, 5) == best
