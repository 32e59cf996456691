"""Priority fees from recent slots: the slots that count, and the fee of each level of urgency.

Implements: interface, "suggestPriorityFee" (percentiles, 150-slot window, paid-slot rule, basis).
Pure, and in whole micro-lamports per compute unit.

The node gives one fee for each slot: the lowest price that got a transaction into the block or, where accounts are
named, the lowest that got their write lock. It is 0 where no price was needed. So percentiles are over slots, not over
transactions, and in a window over all accounts most fees are usually 0.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, unique
from types import MappingProxyType

WINDOW_SLOTS = 150
PAID_SLOTS_MIN = 3  # With fewer paid slots the fees show the choices of single senders, not the price of inclusion.
LEVELS: Mapping[str, int] = MappingProxyType({"low": 25, "medium": 50, "high": 75, "veryHigh": 90})
URGENCIES: Mapping[str, int] = MappingProxyType({"low": 25, "medium": 50, "high": 75, "critical": 90})
# Names and percentiles of getPriorityFeeEstimate as wallets already read it.
ESTIMATE_LEVELS: Mapping[str, int] = MappingProxyType(
    {"min": 0, "low": 25, "medium": 50, "high": 75, "veryHigh": 95, "unsafeMax": 100}
)
RECOMMENDED_MIN = 10_000  # Minimum of `recommended`, as at the service whose request this is.


@unique
class Basis(Enum):
    ALL_SLOTS = "all_slots"
    PAID_SLOTS = "paid_slots"


@dataclass(frozen=True, slots=True)
class Sample:
    """fees: ascending, of the slots that count. sampled: slots in the window. paid: slots with a fee above 0."""

    fees: tuple[int, ...]
    sampled: int
    paid: int
    basis: Basis


def in_window(slots: Iterable[tuple[int, int]], window_slots: int) -> list[int]:
    """Return the fees of the last `window_slots` slots.

    slots: (slot, fee) pairs in any order; the window ends at the highest.

    Skipped slots have no pair, so a node's 150 entries may reach further back than 150 slots. Older ones do not count.
    """
    fees = dict(slots)
    if not fees:
        return []
    first = max(fees) - window_slots + 1
    return [fee for slot, fee in fees.items() if slot >= first]


def sample(fees: Sequence[int], paid_slots_only: bool) -> Sample:
    """Select the fees of a window. paid_slots_only: without slots of fee 0, unless fewer than PAID_SLOTS_MIN remain."""
    paid = sorted(fee for fee in fees if fee > 0)
    if paid_slots_only and len(paid) >= PAID_SLOTS_MIN:
        return Sample(tuple(paid), len(fees), len(paid), Basis.PAID_SLOTS)
    return Sample(tuple(sorted(fees)), len(fees), len(paid), Basis.ALL_SLOTS)


def nearest_rank(ascending: Sequence[int], percent: int) -> int:
    """Return the percentile by nearest rank: the smallest value that at least `percent` % of all values do not exceed.

    Always one of the values, so nothing is rounded. A percent of 0 gives the smallest.
    """
    assert ascending and 0 <= percent <= 100, (len(ascending), percent)
    rank = (percent * len(ascending) + 99) // 100  # Rounded up, in integers.
    return ascending[max(rank, 1) - 1]


def levels(taken: Sample, percents: Mapping[str, int]) -> dict[str, int]:
    return {name: nearest_rank(taken.fees, percent) for name, percent in percents.items()}
