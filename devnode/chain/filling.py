"""Fills the block being built.

Implements: while there is room and nobody waits, a transaction lands when it arrives. When it does not fit, when others
wait, or when there is a crowd (crowd.py), it waits for the end of the slot. Then the block is filled from all that
wait, the highest fee per compute unit first, then by arrival. The block is full at the first transaction that does not
fit; one whose accounts have no room is passed over. What is left waits for the next block, until its blockhash is too
old. When too many wait, those with the lowest fees lose their places. Copies of a transaction wait together.
Synchronous. Not here: the room (open_block.py), executing (chain.py).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import count
from typing import Protocol

import msgspec
from solders.signature import Signature

from devnode.chain.chain import Chain
from devnode.chain.open_block import counted_units
from devnode.chain.submissions import Dropped, Source, SubmitResult, Waiting
from devnode.encoding.wire import Decoded
from devnode.execution.execution import Refused, load_keys
from devnode.execution.fees import compute_budget

QUEUED_MAX = 5_000


class Queued(msgspec.Struct):
    decoded: Decoded
    source: Source
    price_micro_lamports: int  # For each compute unit.
    units: int  # Units that it counts before it has run.
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


Settle = Callable[[SubmitResult], object]


class Competitors(Protocol):
    """A source of competing transactions."""

    @property
    def compete(self) -> bool: ...

    def transactions(self, slot: int) -> Iterable[Decoded]:
        """The transactions that arrive in this slot. Their signatures are valid."""
        ...


class BlockFilling:
    def __init__(self, chain: Chain, competitors: Competitors) -> None:
        self._chain, self._competitors = chain, competitors
        self._queue = FeeQueue()
        chain.before_seal.append(self.fill)

    @property
    def is_direct(self) -> bool:
        """Whether every transaction lands when it arrives."""
        return self._chain.space.fits_any and not self._queue and not self._competitors.compete

    def take(self, decoded: Decoded, source: Source, signatures_checked: bool, settle: Settle) -> SubmitResult:
        """Land a transaction, or let it wait. settle: called with its result at the end of its waiting."""
        if self.is_direct:
            return self._chain.submit_decoded(decoded, source, signatures_checked)
        if not signatures_checked and not all(decoded.transaction.verify_with_results()):
            return Refused("SignatureFailure")
        reason = self._chain.refusal_now(decoded)
        if reason is not None:
            return Refused(reason)
        queued = self._queued(decoded, source, settle)
        if not self._queue and not self._competitors.compete and self._fits(queued):
            return self._chain.submit_decoded(decoded, source, signatures_checked=True)
        self._wait(queued)
        return Waiting()

    def fill(self) -> None:
        """Fill the block before it is sealed."""
        chain = self._chain
        building = chain.levels.building
        for decoded in self._competitors.transactions(building.slot):
            self._wait(self._queued(decoded, Source.CROWD, _ignored))
        is_full = False
        for queued in self._queue.by_fee() if self._queue else ():
            if queued.last_valid_height is not None and building.height > queued.last_valid_height:
                result: SubmitResult = Refused("BlockhashNotFound")
            elif not is_full and self._fits(queued):
                counted = queued.units if queued.source is Source.CROWD else None
                result = chain.submit_decoded(
                    queued.decoded, queued.source, signatures_checked=True, past_gates=True, counted=counted
                )
            else:
                is_full |= queued.units <= chain.limits.units and not chain.space.fits(queued.units, ())
                continue
            self._queue.remove(queued)
            queued.settle(result)

    def _fits(self, queued: Queued) -> bool:
        return self._chain.space.fits(queued.units, queued.write_locked)

    def _wait(self, queued: Queued) -> None:
        for one in self._queue.add(queued):
            one.settle(Dropped())

    def _queued(self, decoded: Decoded, source: Source, settle: Settle) -> Queued:
        chain = self._chain
        budget, keys = compute_budget(decoded), load_keys(decoded, chain.vm.account)
        return Queued(
            decoded=decoded,
            source=source,
            price_micro_lamports=budget.price_micro_lamports,
            units=counted_units(
                budget.compute_unit_limit, decoded.message.header.num_required_signatures, len(keys.writable)
            ),
            write_locked=tuple(str(keys.all[index]) for index in keys.writable),
            last_valid_height=chain.blockhashes.last_valid_height(decoded.blockhash),
            settle=settle,
        )


def _ignored(result: SubmitResult) -> None:
    """Ignore the result of a competing transaction."""
