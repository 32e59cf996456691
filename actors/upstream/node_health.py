"""The health score of a node, from its probes in a row and their average latency.

Implements: decisions, "health transitions" (what they count); design, "What must survive what" (the node, or one of
several).
Pure. One score per node. node_selection.py chooses nodes by it; status/core.py derives the public health page.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum, unique

_LATENCY_WEIGHT = 8  # A new probe counts an eighth, so that one slow answer does not make a node slow.
# After so many lower slots in a row, the best slot of a node was wrong, or its chain has started again. Without this
# limit one absurd slot would make every node lag for ever.
_BELOW_BEST_MAX = 100


@unique
class Commitment(IntEnum):
    PROCESSED = 0
    CONFIRMED = 1
    FINALIZED = 2


# By the word in a request. Unknown and older words are left to the node.
COMMITMENTS: dict[str | None, Commitment] = {
    None: Commitment.FINALIZED,
    **{commitment.name.lower(): commitment for commitment in Commitment},
}


@dataclass(frozen=True, slots=True)
class Probe:
    """One probe of a node. answered: it reported its slot. None: the node did not report the value.

    slot: the finalized slot. behind: the node itself says that it is behind its cluster.
    """

    answered: bool
    slot: int | None = None
    block_height: int | None = None
    version: str | None = None
    latency_ms: int | None = None
    confirmed_slot: int | None = None
    processed_slot: int | None = None
    behind: bool = False


@dataclass(frozen=True, slots=True)
class NodeScore:
    name: str  # As configured; never the URL, which may contain a key.
    failures_in_a_row: int = 0
    successes_in_a_row: int = 0
    latency_ms: int | None = None  # Running average; None: no probe was answered yet.
    last: Probe | None = None
    best_slot: int | None = None  # Highest plausible slot that this node reported.
    below_best_in_a_row: int = 0

    def after(self, probe: Probe) -> "NodeScore":
        """Return the score after this probe. Values that a failed probe lacks stay as they were."""
        if not probe.answered:
            return replace(self, failures_in_a_row=self.failures_in_a_row + 1, successes_in_a_row=0, last=probe)
        latency_ms = self.latency_ms if probe.latency_ms is None else probe.latency_ms
        if latency_ms is not None and self.latency_ms is not None:
            latency_ms = (self.latency_ms * (_LATENCY_WEIGHT - 1) + latency_ms) // _LATENCY_WEIGHT
        best_slot, below_best = self._best_after(probe.slot)
        return replace(
            self,
            failures_in_a_row=0,
            successes_in_a_row=self.successes_in_a_row + 1,
            latency_ms=latency_ms,
            last=probe,
            best_slot=best_slot,
            below_best_in_a_row=below_best,
        )

    def _best_after(self, slot: int | None) -> tuple[int | None, int]:
        """Return the best slot after this one, and for how many probes in a row it was not reached again."""
        if slot is None:
            return self.best_slot, self.below_best_in_a_row
        if self.best_slot is None or slot >= self.best_slot or self.below_best_in_a_row + 1 >= _BELOW_BEST_MAX:
            return slot, 0
        return self.best_slot, self.below_best_in_a_row + 1


def lag_slots(score: NodeScore, scores: Sequence[NodeScore]) -> int:
    """Return how far this node's last slot is behind the best slot of any node."""
    known = [other.best_slot for other in scores if other.best_slot is not None]
    if not known or score.last is None or score.last.slot is None:
        return 0
    return max(0, max(known) - score.last.slot)


def slot_at(probe: Probe | None, commitment: Commitment) -> int | None:
    """Return the slot of a probe at a commitment; where it did not ask, the finalized slot, which is a lower bound."""
    if probe is None:
        return None
    asked = (probe.processed_slot, probe.confirmed_slot, probe.slot)[commitment]
    return probe.slot if asked is None else asked
