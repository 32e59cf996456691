"""The block engine: accepts bundles, holds an auction every 50 ms, and answers their statuses.

Implements: the order of an auction (highest tip first, then the earliest); statuses from the chain; a look-back of five
minutes. A bundle id is only a receipt: a bundle that would fail at its auction does not land.
Bundles are in memory, so a restart forgets them. Not here: JSON-RPC (endpoints.py), landing (auction.py).
"""

import asyncio
import itertools
import logging
from dataclasses import dataclass
from enum import Enum, unique

from solders.signature import Signature

from actors.clock import Clock
from devnode.block_engine.auction import Failed, Rehearsed, TipWindow, is_alive, land, refusal, rehearse, tip_of
from devnode.block_engine.bundles import NEEDS_TIP, TIP_LAMPORTS_MIN, Bundle, BundleRefusal, locks_tip_account
from devnode.chain.bus import Lagged, SlotSealed
from devnode.chain.intake import Arrival
from devnode.chain.submissions import Dropped, Source
from devnode.encoding.addresses import TIP_ACCOUNTS
from devnode.encoding.wire import Decoded
from devnode.execution.execution import Refused
from devnode.faults.plan import Late, Passes
from devnode.records.records import TransactionRecord
from devnode.rpc.node import Node

logger = logging.getLogger("devnode")
AUCTION_SECONDS = 0.05
LOOK_BACK_SECONDS = 300.0
BUNDLES_MAX = 10_000  # Bundles in memory; above this number the oldest are forgotten.


@unique
class Inflight(Enum):
    INVALID = "Invalid"  # Unknown, or older than the look-back.
    PENDING = "Pending"
    FAILED = "Failed"
    LANDED = "Landed"


@dataclass(slots=True)
class _Entry:
    bundle: Bundle
    received_seconds: float
    arrivals: list[Arrival]
    failed: bool = False
    has_landed: bool = False  # It landed once; a lost fork may have undone it.


@dataclass(frozen=True, slots=True)
class LandedBundle:
    """A landed bundle."""

    identifier: str
    signatures: tuple[Signature, ...]
    slot: int


class BlockEngine:
    def __init__(self, node: Node, clock: Clock) -> None:
        self.node, self._clock = node, clock
        self.tips = TipWindow()
        self._entries: dict[str, _Entry] = {}  # Oldest first.
        self._queue: list[Bundle] = []
        self._arrived = asyncio.Event()

    def accept(self, bundle: Bundle) -> BundleRefusal | None:
        """Accept a bundle for the next auction; None if accepted. A second call before the auction adds no bid; after
        a failed auction it is a new attempt."""
        arrivals = [self.node.intake.arrive(one, Source.BUNDLE) for one in bundle.transactions]
        fault = refusal(self.node.chain, bundle)
        if fault is not None:
            _settle(arrivals, Refused(fault.text))
            return fault
        if any(waiting.identifier == bundle.identifier for waiting in self._queue):
            self._entries[bundle.identifier].arrivals += arrivals
            return None
        self._forget_old()
        self._entries.pop(bundle.identifier, None)  # So that it moves to the end: the oldest are at the front.
        self._entries[bundle.identifier] = _Entry(bundle, self._clock.monotonic(), arrivals)
        fate = self.node.faults.send_fate(Source.BUNDLE, str(bundle.signatures[0]))
        if isinstance(fate, Late):
            self.node.faults.hold(fate.slots, lambda: self._enter(bundle))
        elif isinstance(fate, Passes):
            self._enter(bundle)
        else:
            _settle(arrivals, Dropped())
        return None

    def forward(self, decoded: Decoded) -> BundleRefusal | None:
        """Send a single transaction to the leader, if it tips; None if accepted. As for a bundle, a tip that is too
        small is found out afterwards, and the sender does not learn of it."""
        if not locks_tip_account(decoded):
            return BundleRefusal(NEEDS_TIP)
        tip = tip_of(self.node.chain, decoded)
        if tip < TIP_LAMPORTS_MIN:
            _settle([self.node.intake.arrive(decoded, Source.BUNDLE)], Refused(f"tip of {tip} lamports"))
        else:
            self.node.intake.submit(decoded, Source.BUNDLE)
        return None

    def _enter(self, bundle: Bundle) -> None:
        self._queue.append(bundle)
        self._arrived.set()

    def _forget_old(self) -> None:
        oldest = self._clock.monotonic() - LOOK_BACK_SECONDS
        for identifier, entry in list(self._entries.items()):
            if entry.received_seconds > oldest and len(self._entries) < BUNDLES_MAX:
                return
            del self._entries[identifier]

    def auction(self) -> None:
        """Land the queued bundles that can land, the highest tip first. While the engine is down, they wait."""
        chain = self.node.chain
        if self.node.faults.plan.engine.down:
            self._arrived.set()
            return
        bids: list[tuple[int, Bundle]] = []
        for bundle in self._queue:
            tried = rehearse(chain, bundle)
            # A bundle that fails alone may succeed after another one, so it is tried again at the end.
            bids.append((tried.tip_lamports if isinstance(tried, Rehearsed) else -1, bundle))
        self._queue.clear()
        for _, bundle in sorted(bids, key=lambda bid: -bid[0]):
            result = land(chain, bundle)
            entry = self._entries.get(bundle.identifier)
            if isinstance(result, Failed) and result.may_wait:
                self._enter(bundle)  # It waits for the next auction.
                continue
            if isinstance(result, Failed):
                logger.info("bundle %s lands nothing: %s", bundle.identifier, result.reason)
            if entry is not None:
                entry.failed = isinstance(result, Failed)
                entry.has_landed |= not entry.failed
                _settle(entry.arrivals, result)

    def landed(self, identifier: str) -> LandedBundle | None:
        """The landed bundle, if the chain has it now: a lost fork may have undone it."""
        entry = self._entries.get(identifier)
        if entry is None or not entry.has_landed:
            return None
        slots = {self._slot_of(signature) for signature in entry.bundle.signatures}
        slot = slots.pop()
        return None if slots or slot is None else LandedBundle(identifier, entry.bundle.signatures, slot)

    def _slot_of(self, signature: Signature) -> int | None:
        """The slot of a landed transaction, from the chain's statuses or, if it is older, from the archive."""
        status = self.node.chain.statuses.get(signature)
        if status is not None:
            return status.slot
        stored = self.node.archive.status(str(signature))
        return None if stored is None else stored[0]

    def inflight(self, identifier: str) -> tuple[Inflight, int | None]:
        """The status of a bundle, and its slot if it has landed."""
        entry = self._entries.get(identifier)
        if entry is None or self._clock.monotonic() - entry.received_seconds > LOOK_BACK_SECONDS:
            return Inflight.INVALID, None
        landed = self.landed(identifier)
        if landed is not None:
            return Inflight.LANDED, landed.slot
        if entry.failed or not is_alive(self.node.chain, entry.bundle):
            return Inflight.FAILED, None
        return Inflight.PENDING, None

    def fund_tip_accounts(self) -> None:
        """Fund missing tip accounts with the rent-exempt minimum: otherwise small tips to them would fail."""
        for pubkey in TIP_ACCOUNTS:
            if self.node.chain.vm.account(pubkey) is None:
                self.node.faucet.airdrop(pubkey, self.node.chain.vm.rent_exempt_lamports(0))

    async def run(self) -> None:
        """Hold auctions and observe tips until cancelled."""
        await asyncio.gather(self._hold_auctions(), self._watch())

    async def _hold_auctions(self) -> None:
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            await asyncio.sleep(AUCTION_SECONDS)
            self.auction()

    async def _watch(self) -> None:
        while True:
            sealed = self.node.chain.bus.subscribe(SlotSealed)
            try:
                while True:
                    event = await sealed.next()
                    assert isinstance(event, SlotSealed), event
                    self.tips.observe(event.block)
            except Lagged:
                logger.warning("the block engine missed tips of some slots")
            finally:
                sealed.close()


def _settle(arrivals: list[Arrival], result: tuple[TransactionRecord, ...] | Failed | Dropped | Refused) -> None:
    if isinstance(result, tuple):  # In the order of the bundle; each broadcast counts as one arrival.
        for arrival, record in zip(arrivals, itertools.cycle(result), strict=False):
            arrival.settle(record)
        return
    for arrival in arrivals:
        arrival.settle(Refused(result.reason) if isinstance(result, Failed) else result)
