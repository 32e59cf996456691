"""Priority fees from recent slots: which slots count, and what each level of urgency pays.

Implements: interface specification, "suggestPriorityFee" (percentiles, 150-slot window, paid-slot rule, basis).
Pure, and in whole micro-lamports per compute unit.

A slot's value is what the node says of it: the lowest price that got into the block or, of accounts, the lowest that
got their write lock; 0 where nobody had to pay. Percentiles are therefore over slots, not over transactions, and a
global window in which most values are 0 is normal.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, unique
from types import MappingProxyType

WINDOW_SLOTS = 150
PAID_SLOTS_MIN = 3  # Fewer paid slots say more about who paid than about what it takes.
LEVELS: Mapping[str, int] = MappingProxyType({"low": 25, "medium": 50, "high": 75, "veryHigh": 90})
URGENCIES: Mapping[str, int] = MappingProxyType({"low": 25, "medium": 50, "high": 75, "critical": 90})
# The names and percentiles of the estimate that wallets already read.
ESTIMATE_LEVELS: Mapping[str, int] = MappingProxyType(
    {"min": 0, "low": 25, "medium": 50, "high": 75, "veryHigh": 95, "unsafeMax": 100}
)


@unique
class Basis(Enum):
    ALL_SLOTS = "all_slots"
    PAID_SLOTS = "paid_slots"


@dataclass(frozen=True, slots=True)
class Sample:
    """fees: ascending, of the slots that count. sampled, paid: slots in the window, and those with a fee above 0."""

    fees: tuple[int, ...]
    sampled: int
    paid: int
    basis: Basis


def in_window(slots: Iterable[tuple[int, int]], window_slots: int) -> list[int]:
    """The fees of the last `window_slots` slots of (slot, fee) pairs, in any order; the newest named slot is the last.

    Skipped slots have no pair. A node's 150 entries may reach further back than 150 slots: those do not count.
    """
    fees = dict(slots)
    if not fees:
        return []
    first = max(fees) - window_slots + 1
    return [fee for slot, fee in fees.items() if slot >= first]


def sample(fees: Sequence[int], paid_slots_only: bool) -> Sample:
    """paid_slots_only: leave out slots in which nobody paid, unless fewer than PAID_SLOTS_MIN remain."""
    paid = sorted(fee for fee in fees if fee > 0)
    if paid_slots_only and len(paid) >= PAID_SLOTS_MIN:
        return Sample(tuple(paid), len(fees), len(paid), Basis.PAID_SLOTS)
    return Sample(tuple(sorted(fees)), len(fees), len(paid), Basis.ALL_SLOTS)


def nearest_rank(ascending: Sequence[int], percent: int) -> int:
    """The smallest value that at least `percent` of 100 of all values do not exceed; 0 gives the smallest of all.

    Always a value that occurred, so nothing is rounded.
    """
    assert ascending and 0 <= percent <= 100, (len(ascending), percent)
    rank = (percent * len(ascending) + 99) // 100  # Rounded up, in integers.
    return ascending[max(rank, 1) - 1]


def levels(taken: Sample, percents: Mapping[str, int]) -> dict[str, int]:
    return {name: nearest_rank(taken.fees, percent) for name, percent in percents.items()}
