"""Slices are spread evenly, and none moves that could stay; or in blocks."""

import random

from hypothesis import given
from hypothesis import strategies as st

from actors.ownership.spread import blocks, spread

NAMES = [f"actor-{number}" for number in range(12)]
slice_counts = st.integers(0, 80)
wanted_names = st.lists(st.sampled_from(NAMES), min_size=1, unique=True)
some_holders = st.dictionaries(st.integers(0, 99), st.sampled_from([*NAMES, "gone"]))


def shares(holders: dict[int, str], wanted: list[str]) -> list[int]:
    return [list(holders.values()).count(name) for name in wanted]


@given(slice_counts, some_holders, wanted_names)
def test_every_slice_has_a_wanted_holder_and_shares_are_even(
    slices: int, holders: dict[int, str], wanted: list[str]
) -> None:
    found = spread(slices, holders, wanted)
    assert list(found) == list(range(slices)) and set(found.values()) <= set(wanted)
    each = shares(found, wanted)
    assert max(each) - min(each) <= 1


@given(slice_counts, some_holders, wanted_names)
def test_no_even_spread_moves_fewer(slices: int, holders: dict[int, str], wanted: list[str]) -> None:
    """At best, the actors that hold most keep a greater share, and each keeps as much of its own as its share takes."""
    found = spread(slices, holders, wanted)
    stayed = sum(found[number] == holders.get(number) for number in range(slices))
    now = {number: name for number, name in holders.items() if number < slices}
    share, greater = divmod(slices, len(wanted))
    ranked = sorted(shares(now, wanted), reverse=True)
    assert stayed == sum(min(count, share + int(place < greater)) for place, count in enumerate(ranked))


@given(slice_counts, some_holders, wanted_names, st.randoms(use_true_random=False))
def test_a_spread_is_the_same_each_time_and_stays(
    slices: int, holders: dict[int, str], wanted: list[str], chance: random.Random
) -> None:
    """Two movers with one aim must not undo each other's work: the order of rows says nothing."""
    found = spread(slices, holders, wanted)
    rows = list(holders.items())
    chance.shuffle(rows)
    assert spread(slices, dict(rows), wanted) == found
    assert spread(slices, found, wanted) == found


@given(slice_counts, some_holders, wanted_names, st.data())
def test_slices_that_have_moved_already_change_nothing(
    slices: int, holders: dict[int, str], wanted: list[str], data: st.DataObject
) -> None:
    """A mover that died half-way is continued with the same aim."""
    found = spread(slices, holders, wanted)
    there = data.draw(st.sets(st.sampled_from(list(found)))) if found else set()
    assert spread(slices, holders | {number: found[number] for number in there}, wanted) == found


def test_one_more_actor_takes_its_share_and_no_more() -> None:
    """A share of each of the others, and none of them gets a slice of another."""
    before = spread(256, {}, NAMES[:3])
    after = spread(256, before, NAMES[:4])
    moved = {number for number in range(256) if before[number] != after[number]}
    assert len(moved) == 64 and {after[number] for number in moved} == {NAMES[3]}


def test_an_actor_that_is_not_wanted_gives_all() -> None:
    before = spread(256, {}, NAMES[:3])
    after = spread(256, before, NAMES[:2])
    moved = {number for number in range(256) if before[number] != after[number]}
    assert moved == {number for number, name in before.items() if name == NAMES[2]}


@given(slice_counts, some_holders, wanted_names)
def test_blocks_are_neighbours_and_even_whoever_held_them(
    slices: int, holders: dict[int, str], wanted: list[str]
) -> None:
    found = blocks(slices, holders, wanted)
    assert list(found) == list(range(slices)) and found == blocks(slices, {}, wanted)
    places = [wanted.index(name) for name in found.values()]
    assert places == sorted(places)
    each = shares(found, wanted)
    assert max(each) - min(each) <= 1
