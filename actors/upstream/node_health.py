"""The health score of a node, from its probes in a row and their average latency.

Implements: decisions, "health transitions" (what they count); design, section 5 (the node, or one of several).
Pure. One score per node; who is asked is node_selection.py, what the scores mean for the public health page is
status/core.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum, unique

_LATENCY_WEIGHT = 8  # A new probe counts an eighth, so one slow answer does not look like a slow node.
# A node that names lower slots than its own best for so many probes in a row was wrong about that one, or its chain has
# begun anew. Without this a single absurd slot would make every node lag for ever.
_BELOW_BEST_MAX = 100


@unique
class Commitment(IntEnum):
    PROCESSED = 0
    CONFIRMED = 1
    FINALIZED = 2


@dataclass(frozen=True, slots=True)
class Probe:
    """One probe of a node. answered: it reported its slot. None: it did not report this.

    slot: finalized, the chain's own default. behind: the node itself says that it is behind its cluster.
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
    name: str  # As configured: never the URL, which may carry a key.
    failures_in_a_row: int = 0
    successes_in_a_row: int = 0
    latency_ms: int | None = None  # Running average; None: no probe was ever answered.
    last: Probe | None = None
    best_slot: int | None = None  # Highest slot that this node named, as far as it can be believed.
    below_best_in_a_row: int = 0

    def after(self, probe: Probe) -> "NodeScore":
        """Return the score after this probe. Figures that a failed probe lacks keep their last values."""
        if not probe.answered:
            return replace(self, failures_in_a_row=self.failures_in_a_row + 1, successes_in_a_row=0, last=probe)
        latency_ms = self.latency_ms
        if probe.latency_ms is not None:
            latency_ms = (
                probe.latency_ms
                if latency_ms is None
                else (latency_ms * (_LATENCY_WEIGHT - 1) + probe.latency_ms) // _LATENCY_WEIGHT
            )
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
