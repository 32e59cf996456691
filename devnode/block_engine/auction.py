"""Lands a bundle: all of its transactions in the slot being built, in order, or none.

Implements: the refusals that depend on the chain, with the engine's texts; and the main rule, that the whole bundle is
rehearsed before any transaction is submitted. There is no await in between, so landing has the rehearsed results.
Not here: when the auction is held (engine.py).
"""

from dataclasses import dataclass, field

from devnode.block_engine.bundles import TIP_LAMPORTS_MIN, Bundle, Fault, offered_tip_lamports
from devnode.block_engine.tips import tip_lamports
from devnode.chain.block_space import counted_units
from devnode.chain.chain import Chain, Source
from devnode.chain.rehearsal import rehearsing
from devnode.encoding.transaction_errors import error_text
from devnode.encoding.wire import Decoded
from devnode.execution.execution import Refused
from devnode.records.records import TransactionRecord


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """All transactions would succeed."""

    tip_lamports: int
    units: int = field(default=0, compare=False)  # That they take in the block.
    write_locked: frozenset[str] = field(default=frozenset(), compare=False)


@dataclass(frozen=True, slots=True)
class Failed:
    """No transaction of the bundle lands."""

    reason: str
    may_wait: bool = False  # Only the block has no room.


def refusal(chain: Chain, bundle: Bundle) -> Fault | None:
    """Why the engine refuses the bundle now; None if it does not."""
    if any(one.signature in chain.statuses for one in bundle.transactions):
        return Fault("bundle contains an already processed transaction")
    if not is_alive(chain, bundle):
        return Fault("bundle contains an expired blockhash")
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
