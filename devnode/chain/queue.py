"""The transactions that wait for room in a block.

Implements: the order by fee per compute unit, highest first, then by arrival; when too many wait, those with the lowest
fees lose their places. Copies of a transaction wait together.
Pure. Not here: the room (block_space.py), when they land (filling.py).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

import msgspec
from solders.signature import Signature

from devnode.chain.chain import Source, SubmitResult
from devnode.encoding.wire import Decoded

QUEUED_MAX = 5_000


class Queued(msgspec.Struct):
    decoded: Decoded
    source: Source
    price_micro_lamports: int  # A compute unit.
    units: int  # As it counts before it has run.
    write_locked: tuple[str, ...]
    last_valid_height: int | None  # None: a durable nonce.
    settle: Callable[[SubmitResult], object]  # Called once, with the result.
    order: int = 0


@dataclass(slots=True)
class FeeQueue:
    _queued: dict[Signature, Queued] = field(default_factory=dict)
    _orders: "count[int]" = field(default_factory=count)

    def __len__(self) -> int:
        return len(self._queued)

    def add(self, queued: Queued) -> list[Queued]:
        """Add a transaction. Returns those that lose their places because too many wait."""
        signature = queued.decoded.signature
        known = self._queued.get(signature)
        if known is not None:
            known.settle = _both(known.settle, queued.settle)
            return []
        queued.order = next(self._orders)
        self._queued[signature] = queued
        if len(self._queued) <= QUEUED_MAX:
            return []
        lost = self.by_fee()[QUEUED_MAX * 9 // 10 :]
        for one in lost:
            self.remove(one)
        return lost

    def remove(self, queued: Queued) -> None:
        del self._queued[queued.decoded.signature]

    def by_fee(self) -> list[Queued]:
        return sorted(self._queued.values(), key=lambda queued: (-queued.price_micro_lamports, queued.order))


def _both(
    first: Callable[[SubmitResult], object], second: Callable[[SubmitResult], object]
) -> Callable[[SubmitResult], object]:
    def settle(result: SubmitResult) -> None:
        first(result)
        second(result)

    return settle
