"""Lands a bundle: all of its transactions in the slot being built, in order, or none; and the tips that landed.

Implements: the refusals that depend on the chain, with the engine's texts; and the main rule, that the whole bundle is
rehearsed before any transaction is submitted. There is no await in between, so landing has the rehearsed results.
The tip of a transaction is the gain of the tip accounts, by a transfer or inside a program. The tip floor has
percentiles of the tips of the last 750 slots (five minutes at 400 ms), and a moving average of their median. Amounts
are lamports; only the published figures are SOL.
Not here: when the auction is held (engine.py).
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from devnode.block_engine.bundles import TIP_LAMPORTS_MIN, Bundle, BundleRefusal, offered_tip_lamports
from devnode.chain.chain import Chain
from devnode.chain.open_block import counted_units
from devnode.chain.simulation import rehearsing
from devnode.chain.submissions import Source
from devnode.encoding.addresses import LAMPORTS_PER_SOL, TIP_ACCOUNTS
from devnode.encoding.transaction_errors import error_text
from devnode.encoding.wire import Decoded
from devnode.execution.execution import Refused
from devnode.records.records import Block, TransactionMeta, TransactionRecord

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


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """All transactions would succeed."""

    tip_lamports: int
    units: int = field(default=0, compare=False)  # Units that they take in the block.
    write_locked: frozenset[str] = field(default=frozenset(), compare=False)


@dataclass(frozen=True, slots=True)
class Failed:
    """No transaction of the bundle lands."""

    reason: str
    may_wait: bool = False  # True: only the block has no room.


def refusal(chain: Chain, bundle: Bundle) -> BundleRefusal | None:
    """Why the engine refuses the bundle now; None if it does not."""
    if any(one.signature in chain.statuses for one in bundle.transactions):
        return BundleRefusal("bundle contains an already processed transaction")
    if not is_alive(chain, bundle):
        return BundleRefusal("bundle contains an expired blockhash")
    return None


def is_alive(chain: Chain, bundle: Bundle) -> bool:
    """Whether every blockhash or nonce of the bundle is still usable."""
    return all(chain.refusal_now(one) != "BlockhashNotFound" for one in bundle.transactions)


def rehearse(chain: Chain, bundle: Bundle) -> Rehearsed | Failed:
    """The result the bundle would have if it landed now."""
    tip = units = 0
    write_locked: set[str] = set()
    with rehearsing(chain, chain.levels.building.slot) as rehearsal:
        for decoded in bundle.transactions:
            reason = chain.refusal_now(decoded)
            if reason is not None:
                return _failed(decoded, reason)
            done = rehearsal.run(decoded, verify_signatures=False)  # `bundle_of` has verified the signatures.
            if isinstance(done, Refused):
                return _failed(decoded, done.err)
            if done.meta.err is not None:
                return _failed(decoded, done.meta.err)
            keys = tuple(map(str, done.keys.all))
            tip += tip_lamports(keys, done.meta)
            signatures = decoded.message.header.num_required_signatures
            units += counted_units(done.meta.compute_units, signatures, len(done.keys.writable))
            write_locked |= {keys[index] for index in done.keys.writable}
    if tip < TIP_LAMPORTS_MIN:
        return Failed(f"tip of {tip} lamports, wanted {TIP_LAMPORTS_MIN} or more")
    return Rehearsed(tip, units, frozenset(write_locked))


def tip_of(chain: Chain, decoded: Decoded) -> int:
    """The tip of a single transaction: what its transfers offer or, if that is too little, what it would pay now."""
    offered = offered_tip_lamports(decoded)
    if offered >= TIP_LAMPORTS_MIN:
        return offered
    with rehearsing(chain, chain.levels.building.slot) as rehearsal:
        done = rehearsal.run(decoded, verify_signatures=False)
    return offered if isinstance(done, Refused) else tip_lamports(tuple(map(str, done.keys.all)), done.meta)


def land(chain: Chain, bundle: Bundle) -> tuple[TransactionRecord, ...] | Failed:
    """Rehearse the bundle, and submit all of its transactions if all succeed and the block has room for them."""
    rehearsed = rehearse(chain, bundle)
    if isinstance(rehearsed, Failed):
        return rehearsed
    if not chain.space.fits(rehearsed.units, rehearsed.write_locked):
        return Failed("the block has no room", may_wait=True)
    records = []
    for decoded in bundle.transactions:
        result = chain.submit_decoded(decoded, Source.BUNDLE, signatures_checked=True, past_gates=True)
        assert isinstance(result, TransactionRecord) and result.meta.err is None, result
        records.append(result)
    return tuple(records)


def _failed(decoded: Decoded, err: object) -> Failed:
    return Failed(f"{decoded.signature}: {error_text(err)}")
