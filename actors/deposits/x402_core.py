"""What becomes of an x402 payment once it was claimed: send again, credit, finish, fail, take back.

Implements: decisions 3.6 (credited on confirmed commitment, taken back when it never becomes final); hostile inputs 24
and 25.
Pure: the network's words come in as values, a step goes out. Whoever restarts goes on from the record alone.

| State | Means | Next |
|---|---|---|
| CLAIMED | nobody else may sign it or show it to a node; not signed yet, so never sent | SENT, ABANDONED |
| SENT | signed by all and perhaps sent; the network's verdict is open | CREDITED, FINAL, FAILED |
| CREDITED | landed at the commitment waited for, credited, not final yet | FINAL, TAKEN_BACK, UNPROVEN |
| FINAL | final on the chain | |
| FAILED | landed with an error, or can never land any more; nothing was credited | |
| TAKEN_BACK | was credited, can never become final; the credits were taken back | |
| UNPROVEN | was credited, and the node keeps too little history to say whether it is final: for the operator | |
| ABANDONED | never signed or sent here: its simulation failed, a limit was reached, or its settler died | |
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum, unique

ABANDON_MS = 60_000  # A settler that has not signed by then is gone: signing takes milliseconds.
# Of several nodes one may keep less history than another: after so long, silence is no proof of absence any more.
PROVABLE_MS = 30 * 60_000
# A blockhash is good for 150 blocks; the newest one at the time of the claim bounds that of any payment.
BLOCKHASH_BLOCKS = 150


@unique
class PaymentKind(IntEnum):
    """Numbers are the database's."""

    STANDARD = 0  # Paid with a call; credited here.
    SPONSORED = 1  # Relayed, co-signed; its payer confirms the deposit.
    SELF_PAID = 2  # Relayed as it came.


@unique
class PaymentState(IntEnum):
    """Numbers are the database's; those from 10 on are ends."""

    CLAIMED = 0
    SENT = 1
    CREDITED = 2
    FINAL = 10
    FAILED = 11
    TAKEN_BACK = 12
    UNPROVEN = 13
    ABANDONED = 14

    @property
    def open(self) -> bool:
        return self < PaymentState.FINAL


@dataclass(frozen=True, slots=True)
class Record:
    """A payment as it is kept. transaction: whole, once it is SENT; before that, as it came."""

    message_hash: bytes
    kind: PaymentKind
    state: PaymentState
    payer: bytes
    amount_base_units: int
    transaction: bytes
    signature: bytes  # Of the fee payer, the name under which the chain knows it; empty before it is SENT.
    last_valid_height: int  # It cannot land in a block higher than this.
    created_at_ms: int
    slot: int = 0  # In which it was seen, 0 before.
    reason: str = ""
    fee_lost: bool = False  # It landed and failed: whoever pays its fee paid for nothing.
    source: bytes = b""  # The token account that the money leaves.
    newcomer: bool = False  # Sponsored for a wallet of which no payment had landed yet.
    brought_by: str = ""  # Of a newcomer's payment: the client's address, where it tells clients apart.


@dataclass(frozen=True, slots=True)
class Sighting:
    """What a node says of a signature. error: of a transaction that landed and failed."""

    slot: int
    error: str | None
    confirmed: bool
    finalized: bool


@dataclass(frozen=True, slots=True)
class Heights:
    """Of one node that did not know a signature: its final block height before it was asked for that, and the oldest
    slot that it could still tell about after it."""

    finalized: int
    first_slot: int


@unique
class Step(Enum):
    WAIT = "wait"
    SEND_AGAIN = "send again"
    CREDIT = "credit"
    FINISH = "finish"
    FAIL = "fail"
    TAKE_BACK = "take back"
    GIVE_UP = "give up"  # Closed as UNPROVEN.
    ABANDON = "abandon"


def next_step(
    record: Record, sighting: Sighting | None, heights: Heights | None, wait_for_finalized: bool, now_ms: int
) -> Step:
    """sighting None: the node does not know the signature. heights None: it did not say, so nothing ends for time."""
    if record.state is PaymentState.CLAIMED:
        return Step.ABANDON if now_ms - record.created_at_ms >= ABANDON_MS else Step.WAIT
    if sighting is None:
        return _unseen(record, heights, now_ms)
    if record.state is PaymentState.CREDITED:
        if not sighting.finalized:
            return Step.WAIT
        return Step.FINISH if sighting.error is None else Step.TAKE_BACK
    if sighting.error is not None:
        # What failed in one fork may still succeed in another; only a final failure is the end of it.
        return Step.FAIL if sighting.finalized else Step.WAIT
    if not has_landed(sighting, wait_for_finalized):
        return Step.WAIT
    return Step.CREDIT if record.kind is PaymentKind.STANDARD else Step.FINISH


def most_telling(record: Record, told: Sequence[Heights]) -> Heights | None:
    """Of several nodes that do not know the payment, the one whose silence says most; never a mixture of two."""
    late = [heights for heights in told if heights.finalized > record.last_valid_height]
    return min(late or told, key=lambda heights: heights.first_slot, default=None)


def has_landed(sighting: Sighting, wait_for_finalized: bool) -> bool:
    """Without an error, at the commitment that settlement waits for."""
    reached = sighting.finalized if wait_for_finalized else sighting.confirmed or sighting.finalized
    return reached and sighting.error is None


def has_failed(sighting: Sighting) -> bool:
    """For the answer to the payer: more than half of the stake has seen it fail."""
    return sighting.error is not None and (sighting.confirmed or sighting.finalized)


def _unseen(record: Record, heights: Heights | None, now_ms: int) -> Step:
    if heights is None or heights.finalized <= record.last_valid_height:
        return Step.SEND_AGAIN
    if record.state is PaymentState.SENT:
        # Should it have landed after all, unseen by a node without history, the deposits' own search credits it.
        return Step.FAIL
    # It was credited: only a node that could still show it proves by its silence that it is gone.
    provable = heights.first_slot <= record.slot and now_ms - record.created_at_ms <= PROVABLE_MS
    return Step.TAKE_BACK if provable else Step.GIVE_UP
