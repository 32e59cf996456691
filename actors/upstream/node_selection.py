"""Chooses the node for a call, from the state of all nodes of a pool.

Implements: node pool (weights and roles; slot and health probes; `minContextSlot`; avoiding lagging and failing nodes).
Pure: milliseconds of a monotonic clock arrive as arguments. pool.py asks the nodes.

A call goes to the best group of nodes that still has an untried node; within the group, calls are shared by weight:

| First by     | Order                                                                                              |
|--------------|----------------------------------------------------------------------------------------------------|
| state        | well; then lagging, or behind as the node itself says; then failing (its last probe, or its breaker)|
| role, weight | reads: `read`, then `archive`; history: `archive`, then `read`; weight 0 after all others of a role  |

Sends go only to nodes with the role `send`. Failing nodes are asked when no other node is left: they may still answer.

The nodes may change while calls run (`join`, `use`, `leave`). A node keeps its index for as long as it is there, as
calls under way name it so. A node that is not in use gets no calls, and its slots count for nobody: it may be of
another network.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, unique

import orjson

from actors.provider_config import NodeConfig
from actors.upstream.breaker import Breaker, Phase
from actors.upstream.method_lanes import Lane
from actors.upstream.node_health import COMMITMENTS, Commitment, NodeScore, Probe, lag_slots, slot_at

_WANTS_READ, _WANTS_HISTORY, _WANTS_SEND = 0, 1, 2
_BACK_AFTER = 3  # Good probes in a row, as many as /health wants.


@unique
class State(IntEnum):
    WELL = 0
    BEHIND = 1
    FAILING = 2


@dataclass(frozen=True, slots=True)
class MinSlot:
    """The lowest slot of a bank that may answer a call (`minContextSlot`)."""

    commitment: Commitment
    slot: int


def min_slot_of(params: bytes) -> MinSlot | None:
    """Return the minimum slot that a call demands. Cheap for calls without one."""
    if b"minContextSlot" not in params:
        return None
    arguments = orjson.loads(params)
    config = arguments[-1] if arguments and type(arguments[-1]) is dict else {}
    slot = config.get("minContextSlot")
    word = config.get("preflightCommitment", config.get("commitment"))  # Sends have the first one.
    commitment = COMMITMENTS.get(word, Commitment.FINALIZED) if type(word) is str else Commitment.FINALIZED
    return MinSlot(commitment, slot) if type(slot) is int else None


@dataclass(slots=True)
class PooledNode:
    """in_use: whether it gets calls. is_gone: it left, and another node may have its index."""

    name: str
    weight: int
    roles: frozenset[str]
    score: NodeScore
    breakers: tuple[Breaker, ...]
    in_use: bool = True
    is_gone: bool = False
    lagging: bool = False
    turn: int = 0  # Smooth weighted round robin: the node with the highest value is next.


@dataclass(slots=True)
class NodeSelection:
    nodes: Sequence[NodeConfig]
    lag_slots_max: int
    open_ms: int
    all: list[PooledNode] = field(init=False)
    ranks: tuple[tuple[tuple[int, int], ...], ...] = field(init=False)  # (index, rank) of nodes, by kind of call.

    def __post_init__(self) -> None:
        self.all = [self._pooled(node) for node in self.nodes]
        assert self.all, "a pool needs a node"
        self._rank_all()

    def join(self, node: NodeConfig) -> int:
        """Add a node, which is not in use yet, and return its index: of one that left, or the next one."""
        pooled = self._pooled(node)
        pooled.in_use = False
        for index, other in enumerate(self.all):
            if other.is_gone:
                self.all[index] = pooled
                return index
        self.all.append(pooled)
        return len(self.all) - 1

    def use(self, index: int, in_use: bool, weight: int) -> None:
        """Say whether a node gets calls from now on, and its share of them."""
        node = self.all[index]
        if (node.in_use, node.weight) != (in_use, weight):
            node.in_use, node.weight = in_use, weight
            self._rank_all()

    def leave(self, index: int) -> None:
        """Forget a node that no call uses any more."""
        self.all[index].in_use, self.all[index].is_gone = False, True
        self._rank_all()

    def _rank_all(self) -> None:
        self.ranks = tuple(
            tuple(
                (index, rank)
                for index, node in enumerate(self.all)
                if node.in_use and (rank := _rank(node, wanted)) is not None
            )
            for wanted in (_WANTS_READ, _WANTS_HISTORY, _WANTS_SEND)
        )
        for node in self.all:  # Turns saved under other weights would cause a burst of calls.
            node.turn = 0

    def _pooled(self, node: NodeConfig) -> PooledNode:
        assert node.name is not None, "the settings give every node a name"
        breakers = tuple(Breaker(self.open_ms) for _ in Lane)
        return PooledNode(node.name, node.weight, frozenset(node.roles), NodeScore(node.name), breakers)

    def probed(self, index: int, probe: Probe) -> NodeScore:
        """Record a probe of one node, and return the node's new score."""
        node = self.all[index]
        node.score = node.score.after(probe)
        if node.score.successes_in_a_row == _BACK_AFTER:
            for breaker in node.breakers:
                breaker.node_is_back()
        scores = [other.score for other in self.all if other.in_use]
        for other in self.all:
            last = other.score.last
            behind = last is not None and last.behind
            other.lagging = behind or lag_slots(other.score, scores) > self.lag_slots_max
        return node.score

    def best_slot(self) -> int | None:
        """Return the highest slot that any node in use has reported."""
        slots = [node.score.best_slot for node in self.all if node.in_use and node.score.best_slot is not None]
        return max(slots, default=None)

    def state(self, index: int, lane: Lane, now_ms: int) -> State:
        node = self.all[index]
        breaker = node.breakers[lane]
        # The phase is compared first: for a healthy node that is all, for every call.
        if node.score.failures_in_a_row or (breaker.phase is not Phase.CLOSED and not breaker.admits(now_ms)):
            return State.FAILING
        if lane is Lane.SEND and any(breaker.phase is Phase.OPEN for breaker in node.breakers):
            return State.FAILING  # A send cannot be repeated, so it avoids a node with any open breaker.
        return State.BEHIND if node.lagging else State.WELL

    def choose(
        self,
        lane: Lane,
        of_history: bool,
        now_ms: int,
        tried: Collection[int] = (),
        min_slot: MinSlot | None = None,
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
            if min_slot is not None:
                groups.setdefault(key, []).append(index)
            elif best is None or key < best:
                best, group = key, [index]
            elif key == best:
                group.append(index)
        if groups:
            assert min_slot is not None
            groups = self._with_slot(groups, min_slot)
            group = groups[min(groups)]
        return self._next_of(group) if group else None

    def _with_slot(
        self, groups: dict[tuple[int, int], list[int]], min_slot: MinSlot
    ) -> dict[tuple[int, int], list[int]]:
        """Keep the nodes that have reached the slot; if none has, the most advanced one, whose error is the answer."""
        indexes = [index for group in groups.values() for index in group]
        slots = {index: slot_at(self.all[index].score.last, min_slot.commitment) or -1 for index in indexes}
        have: dict[tuple[int, int], list[int]] = {}
        for key, group in groups.items():
            able = [index for index in group if slots[index] >= min_slot.slot]
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


def _rank(node: PooledNode, wanted: int) -> int | None:
    """Rank a node by role and weight, the best first. None: it is not asked such calls."""
    last = not node.weight
    if wanted == _WANTS_SEND:
        return last if "send" in node.roles else None
    roles = ("archive", "read") if wanted == _WANTS_HISTORY else ("read", "archive")
    for place, role in enumerate(roles):
        if role in node.roles:
            return 2 * place + last
    return None
