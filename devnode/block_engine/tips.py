"""Landed tips, and the tip floor.

Implements: the tip of a transaction, which is the gain of the tip accounts, by a transfer or inside a program;
percentiles of the tips of the last 750 slots (five minutes at 400 ms), and a moving average of their median. Amounts
are lamports; only the published figures are SOL.
Pure. Not here: which transactions landed (engine.py).
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from devnode.encoding.addresses import LAMPORTS_PER_SOL, TIP_ACCOUNTS
from devnode.records.records import Block, TransactionMeta

WINDOW_SLOTS = 750
PERCENTILES = (25, 50, 75, 95, 99)
_AVERAGE_WEIGHT = 0.1  # The weight of the newest median.
_TIP_ACCOUNTS = frozenset(map(str, TIP_ACCOUNTS))


def tip_lamports(keys: Sequence[str], meta: TransactionMeta) -> int:
    """The gain of all tip accounts by a transaction; at least 0."""
    if meta.err is not None or _TIP_ACCOUNTS.isdisjoint(keys):
        return 0
    gained = sum(
        after - before
        for key, before, after in zip(keys, meta.pre_lamports, meta.post_lamports, strict=True)
        if key in _TIP_ACCOUNTS
    )
    return max(gained, 0)


@dataclass(slots=True)
class TipWindow:
    _tips: deque[tuple[int, int]] = field(default_factory=deque)  # Slot and lamports, oldest first.
    _average: float | None = None

    def observe(self, block: Block) -> None:
        """Add the tips of a sealed block."""
        while self._tips and self._tips[0][0] <= block.slot - WINDOW_SLOTS:
            self._tips.popleft()
        found = [tip for record in block.transactions if (tip := tip_lamports(record.keys, record.meta))]
        if not found:
            return
        self._tips.extend((block.slot, tip) for tip in found)
        median = percentile(sorted(tip for _, tip in self._tips), 50)
        self._average = median if self._average is None else self._average + (median - self._average) * _AVERAGE_WEIGHT

    def floor(self) -> dict[str, float]:
        """The published figures, in SOL; zeros if no tip has landed."""
        tips = sorted(tip for _, tip in self._tips)
        figures = {f"landed_tips_{rank}th_percentile": percentile(tips, rank) for rank in PERCENTILES}
        figures["ema_landed_tips_50th_percentile"] = self._average or 0
        return {name: lamports / LAMPORTS_PER_SOL for name, lamports in figures.items()}


def percentile(ascending: Sequence[int], rank: int) -> float:
    """The percentile of sorted values, interpolated between the two nearest; 0 for an empty list."""
    if not ascending:
        return 0
    position = (len(ascending) - 1) * rank / 100
    below = int(position)
    above = min(below + 1, len(ascending) - 1)
    return ascending[below] + (ascending[above] - ascending[below]) * (position - below)
