"""Slices move whole, from a living holder or a dead one, and a mover that dies is continued by running it again."""

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.ownership.moves import HolderAway, MovesStalled, move_slices
from actors.ownership.spread import blocks, spread

NAMES = ["a", "b", "c", "d", "e"]
SLICES = 40


class MoverDied(Exception):
    """Of the test: nothing after it happens."""


class World:
    """Actors with their slices in memory, and the stored holders. dies_at: the mover dies before or after that call."""

    def __init__(self, stored: Mapping[int, str], dead: Sequence[str] = (), dies_at: int | None = None) -> None:
        self.stored, self.dead, self.dies_at = dict(stored), set(dead), dies_at
        self.serving = {name: {n for n, holder in stored.items() if holder == name} for name in NAMES}
        self.calls: list[tuple[str, str, tuple[int, ...]]] = []
        self._beats = 0

    def _beat(self) -> None:
        self._beats += 1
        if self._beats == self.dies_at:
            raise MoverDied

    async def holders(self) -> Mapping[int, str]:
        self._beat()
        return dict(self.stored)

    async def give(self, name: str, slices: Sequence[int]) -> None:
        self._beat()
        self.calls.append(("give", name, tuple(slices)))
        if name in self.dead:
            raise HolderAway(name)
        self.serving[name] -= set(slices)
        self._beat()

    async def take(self, name: str, slices: Sequence[int]) -> None:
        self._beat()
        self.calls.append(("take", name, tuple(slices)))
        if name in self.dead:
            raise HolderAway(name)
        for number in slices:
            holder = self.stored.get(number)
            # Whoever lives has given a slice before another one takes it.
            assert holder in (None, name) or holder in self.dead or number not in self.serving[holder]
            self.stored[number] = name
        self.serving[name] |= set(slices)
        self._beat()

    async def run(self, wanted: Sequence[str], group: int = 4) -> int:
        return await move_slices(SLICES, wanted, self.holders, self.give, self.take, group)


stored_holders = st.dictionaries(st.integers(0, SLICES - 1), st.sampled_from(NAMES))
some_names = st.lists(st.sampled_from(NAMES), min_size=1, unique=True)


@given(stored_holders, some_names)
async def test_moves_end_in_blocks_where_these_are_aimed_at(stored: dict[int, str], wanted: list[str]) -> None:
    world = World(stored)
    await move_slices(SLICES, wanted, world.holders, world.give, world.take, 4, aim=blocks)
    assert world.stored == blocks(SLICES, {}, wanted)


@given(stored_holders, some_names, st.sets(st.sampled_from(NAMES)), st.integers(1, 6))
async def test_moves_end_in_the_even_spread(
    stored: dict[int, str], wanted: list[str], dead: set[str], group: int
) -> None:
    """Dead holders lose theirs, and no slice moves that could stay."""
    world, target = World(stored, sorted(dead - set(wanted))), spread(SLICES, stored, wanted)
    moved = await world.run(wanted, group)
    assert world.stored == target
    assert moved == sum(stored.get(number) != name for number, name in target.items())
    assert {n: name for name in wanted for n in world.serving[name] if world.stored[n] == name} == target


@given(stored_holders, some_names, st.integers(1, 120))
async def test_a_mover_that_dies_anywhere_is_continued(stored: dict[int, str], wanted: list[str], dies_at: int) -> None:
    """The same spread as without the death: each step begins from what is stored."""
    world, target = World(stored, dies_at=dies_at), spread(SLICES, stored, wanted)
    try:
        await world.run(wanted)
    except MoverDied:
        world.dies_at = None
        await world.run(wanted)
    assert world.stored == target
    assert {n: name for name in wanted for n in world.serving[name] if world.stored[n] == name} == target


async def test_slices_move_in_small_groups_and_are_given_first() -> None:
    world = World(dict.fromkeys(range(SLICES), "a"))
    assert await world.run(["a", "b"], group=8) == 20
    assert [(what, name, len(slices)) for what, name, slices in world.calls] == [
        ("give", "a", 8),
        ("take", "b", 8),
        ("give", "a", 8),
        ("take", "b", 8),
        ("give", "a", 4),
        ("take", "b", 4),
    ]


async def test_slices_that_nobody_holds_go_at_once() -> None:
    world = World({})
    assert await world.run(["a"], group=8) == SLICES
    assert world.calls == [("take", "a", tuple(range(SLICES)))]


async def test_a_dead_holder_is_waited_for_once() -> None:
    """Each wait costs its deadline, and its work stands still meanwhile."""
    world = World(dict.fromkeys(range(SLICES), "a"), dead=["a"])
    assert await world.run(["b", "c"], group=8) == SLICES
    assert [name for what, name, _ in world.calls if what == "give"] == ["a"]


async def test_nothing_is_moved_where_all_are_in_their_place() -> None:
    world = World(spread(SLICES, {}, NAMES))
    assert await world.run(NAMES) == 0 and world.calls == []


async def test_a_new_holder_that_is_away_is_told_and_the_old_one_goes_on() -> None:
    """Its part stays where it was; the others move."""
    world = World(dict.fromkeys(range(SLICES), "a"), dead=["b"])
    with pytest.raises(HolderAway, match="b"):
        await world.run(["a", "b", "c"])
    assert list(world.stored.values()).count("c") == 13
    held = {number for number, name in world.stored.items() if name == "a"}
    assert world.serving["a"] == held and len(held) == 27


async def test_a_take_that_shows_nowhere_ends_the_moves() -> None:
    """Else two movers with different aims would move the same slices for ever."""
    world = World(dict.fromkeys(range(SLICES), "a"))

    async def take(name: str, slices: Sequence[int]) -> None:
        del name, slices

    with pytest.raises(MovesStalled):
        await move_slices(SLICES, ["b"], world.holders, world.give, take)
