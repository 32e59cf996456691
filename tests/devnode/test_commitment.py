from hypothesis import given
from hypothesis import strategies as st

from actors.devnode.commitment import Commitment, Sealed, SlotLevels


def levels(root_depth: int = 4) -> SlotLevels:
    return SlotLevels(root_depth, Sealed(1_000, 0))


def test_a_sealed_slot_is_confirmed_only_when_durable() -> None:
    chain = levels()
    chain.seal(1_001)
    assert chain.level_of(1_000) is Commitment.PROCESSED
    assert chain.confirm(1_000) == ([1_000], [])
    assert chain.level_of(1_000) is Commitment.CONFIRMED
    assert chain.at(Commitment.CONFIRMED) == Sealed(1_000, 0)


def test_finalized_is_root_depth_blocks_below_the_building_one() -> None:
    chain = levels(root_depth=4)
    for slot in range(1_000, 1_010):
        chain.seal(slot + 1)
        chain.confirm(slot)
    assert chain.building == Sealed(1_010, 10)
    assert chain.at(Commitment.FINALIZED) == Sealed(1_006, 6)
    assert chain.level_of(1_006) is Commitment.FINALIZED
    assert chain.level_of(1_007) is Commitment.CONFIRMED


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
