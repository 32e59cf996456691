"""The slots that nodes have shown, and which are believed."""

import pytest

from actors.upstream.node_health import Commitment, Probe
from actors.upstream.node_slots import LEAD_SLOTS_MAX, NEAR_SLOTS, NodeSlots

CONFIRMED = Commitment.CONFIRMED


def of(*slots: int) -> NodeSlots:
    nodes = NodeSlots(range(len(slots)))
    for index, slot in enumerate(slots):
        nodes.probed(index, Probe(True, slot=slot - 32, confirmed_slot=slot, processed_slot=slot + 1))
    return nodes


def test_nothing_is_believed_before_a_node_has_told():
    assert NodeSlots(range(2)).slot_max(CONFIRMED) is None
    assert NodeSlots(range(2)).newest(CONFIRMED) is None


def test_a_node_that_leads_is_believed():
    nodes = of(1_000, 995, 960)
    assert nodes.newest(CONFIRMED) == 1_000
    assert nodes.without(CONFIRMED, 996) == [1, 2]
    assert nodes.without(CONFIRMED, 1_001) == [0, 1, 2]


@pytest.mark.parametrize("absurd", [10**12, 2**63, 1_000 + LEAD_SLOTS_MAX + 1])
def test_one_node_alone_raises_nothing(absurd):
    """Two must tell a slot: a node that names an absurd one is believed by nobody, and not asked."""
    nodes = of(absurd, 1_000, 960)
    assert nodes.slot_max(CONFIRMED) == 1_000 + LEAD_SLOTS_MAX
    assert nodes.newest(CONFIRMED) == 1_000
    assert 0 in nodes.without(CONFIRMED, 900)


def test_of_two_nodes_the_lower_one_bounds_the_other():
    assert of(10**12, 1_000).slot_max(CONFIRMED) == 1_000 + LEAD_SLOTS_MAX
    assert of(1_000).slot_max(CONFIRMED) == 1_000 + LEAD_SLOTS_MAX


@pytest.mark.parametrize("probe", [Probe(False), Probe(True, slot=5, confirmed_slot=5, behind=True)])
def test_a_node_that_fails_or_says_that_it_is_behind_bounds_nobody(probe):
    nodes = of(1_000, 999)
    nodes.probed(1, probe)
    assert nodes.slot_max(CONFIRMED) == 1_000 + LEAD_SLOTS_MAX
    assert nodes.newest(CONFIRMED) == 1_000


def test_answers_count_until_the_chain_goes_back():
    """A chain that starts again, or another node behind the same address."""
    nodes = of(1_000, 1_000)
    nodes.showed(0, CONFIRMED, 1_004)
    assert nodes.newest(CONFIRMED) == 1_004
    nodes.probed(0, Probe(True, slot=900, confirmed_slot=960))
    assert nodes.without(CONFIRMED, 961) == [0]


def test_a_node_that_refused_a_slot_is_not_asked_for_it_again_until_it_tells():
    nodes = of(1_000, 1_000)
    nodes.refused(0, CONFIRMED, 1_001)
    assert nodes.without(CONFIRMED, 1_001 - NEAR_SLOTS) == [0]
    nodes.told(0, CONFIRMED, 1_001)
    assert nodes.without(CONFIRMED, 1_001) == [1]


def test_each_commitment_has_slots_of_its_own():
    """A probe tells all three."""
    nodes = of(1_000)
    assert [nodes.newest(level) for level in Commitment] == [1_001, 1_000, 968]


def test_a_node_that_has_another_ones_index_begins_anew() -> None:
    """Nodes change while calls run; what the former node had reached says nothing of the one in its place."""
    nodes = NodeSlots(range(2))
    for index in (0, 1):
        nodes.told(index, CONFIRMED, 500)
    nodes.use([0])
    nodes.told(1, CONFIRMED, 600)  # An answer that was under way.
    nodes.showed(1, CONFIRMED, 600)
    assert list(nodes.in_use) == [0] and nodes.newest(CONFIRMED) == 500 and nodes.without(CONFIRMED, 500) == []
    nodes.use([0, 1])
    assert nodes.without(CONFIRMED, 500) == [1] and nodes.slot_max(CONFIRMED) is not None
