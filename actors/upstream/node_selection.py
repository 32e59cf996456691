"""Chooses the node for a call, from the state of all nodes of a pool.

Implements: node pool (weights and roles; slot and health probes; `minContextSlot`; what lags or fails is passed over).
Pure: milliseconds of a steady clock arrive as arguments. Asking is pool.py; what /health says of it is status/core.py.

A call goes to the best group of nodes that has one left, and within the group by weight:

| First by     | Order                                                                                              |
|--------------|----------------------------------------------------------------------------------------------------|
| state        | well; then lagging or behind by its own word; then failing (its last probe or its breaker says so)   |
| role, weight | reads: `read`, then `archive`; history: `archive`, then `read`; weight 0 after all others of a role  |

Sends go only to nodes with the role `send`. Failing nodes are asked when no other node is left, because they may answer
all the same.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, unique

from actors.config import NodeConfig
from actors.upstream.breaker import Breaker, Phase
from actors.upstream.method_lanes import LANES, Lane
from actors.upstream.node_health import Commitment, NodeScore, Probe, lag_slots, slot_at

_WANTS_READ, _WANTS_HISTORY, _WANTS_SEND = 0, 1, 2
_BACK_AFTER = 3  # Good probes in a row, as many as make /health trust a node again.


@unique
class State(IntEnum):
    WELL = 0
    BEHIND = 1
    FAILING = 2


@dataclass(frozen=True, slots=True)
class Need:
    """A read that must come from a bank of at least this slot (`minContextSlot`)."""

    commitment: Commitment
    slot: int


@dataclass(slots=True)
class Member:
    name: str
    weight: int
    roles: frozenset[str]
    score: NodeScore
    breakers: tuple[Breaker, ...]
    lagging: bool = False
    turn: int = 0  # Of the smooth weighted round: whoever has waited longest for its share is next.


@dataclass(slots=True)
class Members:
    nodes: Sequence[NodeConfig]
    lag_slots_max: int
    open_ms: int
    all: tuple[Member, ...] = field(init=False)
    ranks: tuple[tuple[tuple[int, int], ...], ...] = field(init=False)  # Who may be asked, by what is wanted.

    def __post_init__(self) -> None:
        self.all = tuple(self._member(node) for node in self.nodes)
        assert self.all, "a pool needs a node"

        self.ranks = tuple(
            tuple((index, rank) for index, member in enumerate(self.all) if (rank := _rank(member, wanted)) is not None)
            for wanted in (_WANTS_READ, _WANTS_HISTORY, _WANTS_SEND)
        )

    def _member(self, node: NodeConfig) -> Member:
        assert node.name is not None, "nodes are named when settings are settled"
        breakers = tuple(Breaker(self.open_ms) for _ in LANES)
        return Member(node.name, node.weight, frozenset(node.roles), NodeScore(node.name), breakers)

    def probed(self, index: int, probe: Probe) -> NodeScore:
        """Record a probe of one node, and return the node's new score."""
        member = self.all[index]
        member.score = member.score.after(probe)
        if member.score.successes_in_a_row == _BACK_AFTER:
            for breaker in member.breakers:
                breaker.node_is_back()
        scores = [other.score for other in self.all]
        for other in self.all:
            last = other.score.last
            behind = last is not None and last.behind
            other.lagging = behind or lag_slots(other.score, scores) > self.lag_slots_max
        return member.score

    def best_slot(self) -> int | None:
        """Return the highest slot that any node has reported."""
        slots = [member.score.best_slot for member in self.all if member.score.best_slot is not None]
        return max(slots, default=None)

    def state(self, index: int, lane: Lane, now_ms: int) -> State:
        member = self.all[index]
        breaker = member.breakers[lane]
        # The phase first: it is all that a node that is well needs, on the path of every call.
        if member.score.failures_in_a_row or (breaker.phase is not Phase.CLOSED and not breaker.admits(now_ms)):
            return State.FAILING
        if lane is Lane.SEND and any(breaker.phase is Phase.OPEN for breaker in member.breakers):
            return State.FAILING  # What cannot be asked twice is not tried on a node that fails at anything.
        return State.BEHIND if member.lagging else State.WELL

    def choose(
        self,
        lane: Lane,
        of_history: bool,
        now_ms: int,
        tried: Collection[int] = (),
        need: Need | None = None,
        worst: State = State.FAILING,
    ) -> int | None:
        """Choose the node to ask. None: every allowed node was tried, or is in a worse state than `worst`."""
        best: tuple[int, int] | None = None
        group: list[int] = []
        groups: dict[tuple[int, int], list[int]] = {}
        for index, rank in self.ranks[_WANTS_SEND if lane is Lane.SEND else of_history]:
            if index in tried or (state := self.state(index, lane, now_ms)) > worst:
                continue
            key = (state, rank)
            if need is not None:
                groups.setdefault(key, []).append(index)
            elif best is None or key < best:
                best, group = key, [index]
            elif key == best:
                group.append(index)
        if groups:
            assert need is not None
            groups = self._with_slot(groups, need)
            group = groups[min(groups)]
        return self._next_of(group) if group else None

    def _with_slot(self, groups: dict[tuple[int, int], list[int]], need: Need) -> dict[tuple[int, int], list[int]]:
        """Only nodes that are known to have the slot; where none is, the one that has come furthest says no itself."""
        slots = {
            index: slot_at(self.all[index].score.last, need.commitment) or -1
            for group in groups.values()
            for index in group
        }
        have: dict[tuple[int, int], list[int]] = {}
        for key, group in groups.items():
            able = [index for index in group if slots[index] >= need.slot]
            if able and key[0] != State.FAILING:
                have[key] = able
        if have or not slots:
            return have
        working = [index for (state, _), group in groups.items() if state != State.FAILING for index in group]
        return {(0, 0): [max(working or slots, key=lambda index: slots[index])]}

    def _next_of(self, group: Sequence[int]) -> int:
        if len(group) == 1:
            return group[0]
        total = 0
        for index in group:
            weight = self.all[index].weight or 1
            self.all[index].turn += weight
            total += weight
        chosen = max(group, key=lambda index: self.all[index].turn)
        self.all[chosen].turn -= total
        return chosen

    def begin(self, index: int, lane: Lane) -> int:
        """A call begins; the ticket goes to ended() or abandoned()."""
        return self.all[index].breakers[lane].begin()

    def ended(self, index: int, lane: Lane, ticket: int, good: bool, now_ms: int) -> None:
        self.all[index].breakers[lane].ended(ticket, good, now_ms)

    def abandoned(self, index: int, lane: Lane, ticket: int) -> None:
        self.all[index].breakers[lane].abandoned(ticket)


def _rank(member: Member, wanted: int) -> int | None:
    """By role and weight, the first first. None: not this node."""
    last = not member.weight
    if wanted == _WANTS_SEND:
        return last if "send" in member.roles else None
    roles = ("archive", "read") if wanted == _WANTS_HISTORY else ("read", "archive")
    for place, role in enumerate(roles):
        if role in member.roles:
            return 2 * place + last
    return None
