"""Caches prices, throughput and statuses of recent blocks.

Implements: Agave's getRecentPrioritizationFees (FeeCache), getRecentPerformanceSamples (PerformanceSampler) and status
cache (StatusCache). In memory only.
Pure: time is an argument. Not here: older history (the journal).
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from solders.signature import Signature

from devnode.records.blockhashes import BLOCKHASHES_KEPT

BLOCKS_KEPT = 150
SAMPLE_SECONDS = 60
SAMPLES_KEPT = 720


@dataclass(frozen=True, slots=True)
class BlockFees:
    slot: int
    lowest: int
    by_account: dict[str, int]  # Only accounts whose lowest price is above the block's.


@dataclass(slots=True)
class FeeCache:
    """The lowest price that was paid in each of up to 150 sealed blocks, and for each write-locked account the lowest
    price of the transactions that locked it. Transactions that asked for no units do not count."""

    _blocks: deque[BlockFees] = field(default_factory=lambda: deque(maxlen=BLOCKS_KEPT))

    def add_block(self, slot: int, priced: Iterable[tuple[int | None, tuple[str, ...]]]) -> None:
        """Add a sealed block.

        priced: for each transaction its price in micro-lamports per unit and the accounts it write-locks."""
        lowest: int | None = None
        by_account: dict[str, int] = {}
        for price, locked in priced:
            if price is None:
                continue
            lowest = price if lowest is None else min(lowest, price)
            for account in locked:
                by_account[account] = min(price, by_account.get(account, price))
        floor = lowest or 0
        above = {account: price for account, price in by_account.items() if price > floor}
        self._blocks.append(BlockFees(slot, floor, above))

    def abandon(self, first_slot: int) -> None:
        """Forget blocks of a lost fork, from the slot on."""
        while self._blocks and self._blocks[-1].slot >= first_slot:
            self._blocks.pop()

    def recent(self, accounts: list[str]) -> list[tuple[int, int]]:
        """Returns (slot, price), oldest first: the highest of the block's price and the prices of the accounts."""
        return [
            (block.slot, max([block.lowest, *(block.by_account.get(account, 0) for account in accounts)]))
            for block in self._blocks
        ]


@dataclass(frozen=True, slots=True)
class Sample:
    slot: int
    slots: int
    transactions: int
    period_seconds: int


@dataclass(slots=True)
class PerformanceSampler:
    _samples: deque[Sample] = field(default_factory=lambda: deque(maxlen=SAMPLES_KEPT))
    _started: float | None = None
    _slots: int = 0
    _transactions: int = 0

    def observe(self, slot: int, transactions: int, now_seconds: float) -> None:
        """Count a block that was sealed at this monotonic time."""
        if self._started is None:
            self._started = now_seconds
        self._slots += 1
        self._transactions += transactions
        elapsed = now_seconds - self._started
        if elapsed >= SAMPLE_SECONDS:
            self._samples.append(Sample(slot, self._slots, self._transactions, round(elapsed)))
            self._started, self._slots, self._transactions = now_seconds, 0, 0

    def recent(self, limit: int) -> list[Sample]:
        """Newest first."""
        return list(self._samples)[::-1][:limit]


@dataclass(frozen=True, slots=True)
class Landed:
    slot: int
    err: Any  # JSON form of the transaction's error; None when it succeeded.


@dataclass(slots=True)
class StatusCache:
    blocks_kept: int = BLOCKHASHES_KEPT + 1  # One more than the hashes, so that no hash outlives its statuses.
    _statuses: dict[Signature, Landed] = field(default_factory=dict)
    _blocks: deque[tuple[int, list[Signature]]] = field(default_factory=deque)
    _open: list[Signature] = field(default_factory=list)
    _success: Landed = field(default_factory=lambda: Landed(0, None))

    def __contains__(self, signature: Signature) -> bool:
        return signature in self._statuses

    def get(self, signature: Signature) -> Landed | None:
        return self._statuses.get(signature)

    def add(self, signature: Signature, slot: int, err: Any) -> None:
        assert signature not in self._statuses, signature
        if err is None:
            if self._success.slot != slot:  # One object for all successes of a slot keeps memory small.
                self._success = Landed(slot, None)
            self._statuses[signature] = self._success
        else:
            self._statuses[signature] = Landed(slot, err)
        self._open.append(signature)

    def abandon(self, first_slot: int) -> int:
        """Forget transactions of a lost fork, from the slot on; returns their number."""
        assert not self._open, "call it between two slots"
        count = 0
        while self._blocks and self._blocks[-1][0] >= first_slot:
            signatures = self._blocks.pop()[1]
            count += len(signatures)
            for signature in signatures:
                del self._statuses[signature]
        return count

    def seal(self, slot: int) -> None:
        self._blocks.append((slot, self._open))
        self._open = []
        while len(self._blocks) > self.blocks_kept:
            for signature in self._blocks.popleft()[1]:
                del self._statuses[signature]
