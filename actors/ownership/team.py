"""A team: the actors of one kind that share its slices.

Implements: design, "Owners, for every kind of actor". Pure. Not here: spreading the slices (spreading.py).
"""

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from actors.ownership.moves import GROUP_SLICES


class Team(NamedTuple):
    """kind: as the store names it. slices: how many there are, for ever. names: of so many actors, the first of which
    directs the others; each begins with name_prefix. group: slices that move at once from one actor.

    give_seconds, take_seconds: what an actor may take for one step of a move.
    """

    kind: str
    slices: int
    actors_max: int
    name_prefix: str
    names: Callable[[int], list[str]]
    give_seconds: float
    take_seconds: float
    group: int = GROUP_SLICES

    def may_share(self, name: str) -> bool:
        """Return whether this actor is one of the small ones of a local run, which share a process. Those beside it
        have processes of their own: an operator wants more of them to use more processors."""
        return name == self.names(1)[0]


def is_even(team: Team, counts: Mapping[str, int], names: Collection[str]) -> bool:
    """Return whether these actors hold all slices, and their numbers differ by at most one."""
    is_whole = set(counts) == set(names) and sum(counts.values()) == team.slices
    return is_whole and max(counts.values()) - min(counts.values()) <= 1
