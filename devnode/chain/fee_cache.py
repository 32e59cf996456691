"""Compute-unit prices of recent blocks.

Implements: Agave's getRecentPrioritizationFees: the lowest price that was paid in each block, and for each write-locked
account the lowest price of the transactions that locked it; up to 150 sealed blocks. Transactions that asked for no
units do not count.
Pure: no clock, no I/O.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

BLOCKS_KEPT = 150


@dataclass(frozen=True, slots=True)
class BlockFees:
    slot: int
    lowest: int
    by_account: dict[str, int]  # Only accounts whose lowest price is above the block's.


@dataclass(slots=True)
class FeeCache:
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
