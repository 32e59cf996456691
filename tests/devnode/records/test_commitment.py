from hypothesis import given
from hypothesis import strategies as st

from devnode.records.commitment import Commitment, Sealed, SlotLevels


def levels(root_depth: int = 4) -> SlotLevels:
    return SlotLevels(root_depth, Sealed(1_000, 0))


def test_a_sealed_slot_is_confirmed_only_when_durable() -> None:
    chain = levels()
    chain.seal(1_001)
    assert chain.level_of(1_000) is Commitment.PROCESSED
    assert chain.confirm(1_000) == ([1_000], [])
    assert chain.level_of(1_000) is Commitment.CONFIRMED
    assert chain.at(Commitment.CONFIRMED) == Sealed(1_000, 0)


def test_depth_counts_blocks_and_not_skipped_slots() -> None:
    chain = levels(root_depth=3)
    for slot, following in ((1_000, 1_010), (1_010, 1_020), (1_020, 1_030)):
        chain.seal(following)
        chain.confirm(slot)
    assert chain.at(Commitment.FINALIZED) == Sealed(1_000, 0)


def test_before_the_first_root_the_oldest_block_stands_for_it() -> None:
    """Every level names a block that exists, from the start."""
    chain = levels()
    assert {chain.at(level).slot for level in Commitment} == {1_000}
    chain.seal(1_001)
    chain.confirm(1_000)
    assert chain.at(Commitment.FINALIZED).slot == 1_000


def test_confirming_twice_changes_nothing() -> None:
    chain = levels()
    chain.seal(1_001)
    chain.confirm(1_000)
    assert chain.confirm(1_000) == ([], [])


def test_restore_gives_back_the_levels() -> None:
    chain = SlotLevels(4, Sealed(1_010, 10))
    chain.restore([Sealed(1_000 + height, height) for height in range(10)])
    assert chain.at(Commitment.CONFIRMED) == Sealed(1_009, 9)
    assert chain.at(Commitment.FINALIZED) == Sealed(1_006, 6)


@given(st.integers(2, 40), st.lists(st.tuples(st.integers(1, 3), st.booleans()), max_size=80))
def test_levels_never_cross_or_go_back(root_depth: int, steps: list[tuple[int, bool]]) -> None:
    """finalized <= confirmed <= processed, and none of them ever decreases."""
    chain = levels(root_depth)
    previous = (0, 0, 0)
    for jump, durable in steps:
        slot = chain.building.slot
        chain.seal(slot + jump)
        if durable:
            chain.confirm(slot)
        now = tuple(chain.at(level).slot for level in Commitment)
        assert now[0] >= now[1] >= now[2]
        assert all(new >= old for new, old in zip(now, previous, strict=True))
        previous = now


def run_of(count: int, root_depth: int = 4) -> SlotLevels:
    chain = levels(root_depth)
    for slot in range(1_000, 1_000 + count):
        chain.seal(slot + 1)
        chain.confirm(slot)
    return chain


def test_a_lost_fork_gives_its_heights_back() -> None:
    """After a lost fork its heights are used again, its slot numbers are not, and the levels are unchanged."""
    chain = run_of(10)
    chain.seal(1_011)
    chain.seal(1_012)
    chain.abandon(1_010)
    assert chain.building == Sealed(1_012, 10)
    assert chain.at(Commitment.CONFIRMED) == Sealed(1_009, 9)
    chain.seal(1_013)
    assert chain.confirm(1_012) == ([1_012], [1_007])


def test_a_node_that_begins_to_lag_stands_still_first() -> None:
    """No level goes back: the node shows the same slots until the lag is reached, then follows at that distance."""
    chain = run_of(10)
    shown = {level: chain.at(level) for level in Commitment}
    chain.lag(5)
    for slot in range(1_010, 1_015):
        assert {level: chain.at(level) for level in Commitment} == shown
        chain.seal(slot + 1)
        chain.confirm(slot)
    assert chain.building.slot == 1_015
    chain.seal(1_016)
    chain.confirm(1_015)
    assert chain.at(Commitment.PROCESSED) == Sealed(1_011, 11)
    assert chain.at(Commitment.CONFIRMED) == Sealed(1_010, 10)
    assert chain.at(Commitment.FINALIZED) == Sealed(1_007, 7)
    assert chain.level_of(1_011) is Commitment.PROCESSED and chain.level_of(1_008) is Commitment.CONFIRMED


def test_a_lag_that_ends_is_caught_up_at_once() -> None:
    chain = run_of(10)
    chain.lag(3)
    chain.seal(1_011)
    chain.confirm(1_010)
    assert chain.at(Commitment.PROCESSED).slot == 1_010 and chain.is_lagging
    chain.lag(0)
    assert chain.at(Commitment.PROCESSED).slot == 1_011 and not chain.is_lagging
    assert chain.at(Commitment.CONFIRMED).slot == 1_010
