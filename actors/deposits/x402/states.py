"""The states of a claimed x402 payment, and the next step: send again, credit, finish, fail, take back.

Implements: decisions, "Two ways to pay by x402" (credited on confirmed commitment, taken back when it never becomes
final); threats 24 and 25.
Pure: takes the node's answers as values and returns a step. After a restart the record alone is enough to go on.

| State | Means | Next |
|---|---|---|
| CLAIMED | one process may sign it and show it to a node; not signed yet, so never sent | SENT, ABANDONED |
| SENT | signed by all and perhaps sent; the result is not known | CREDITED, FINAL, FAILED, UNPROVEN |
| CREDITED | landed at the configured commitment, credited, not final yet | FINAL, TAKEN_BACK, UNPROVEN |
| FINAL | final on the chain | |
| FAILED | landed with an error, or can no longer land; nothing was credited | |
| TAKEN_BACK | was credited, can never become final; the credits were taken back | |
| UNPROVEN | for the operator: its stored transaction does not prove it, or the node cannot say if it is final | |
| ABANDONED | never signed or sent here: its simulation failed, a limit was reached, or its process died | |
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum, unique

from actors.upstream.signature_status import SignatureStatus

ABANDON_MS = 60_000  # A process that has not signed by then has died: signing takes milliseconds.
# One of several nodes may keep less history than another. After this time, an unknown signature proves nothing.
PROVABLE_MS = 30 * 60_000
# A blockhash is valid for 150 blocks. No payment can have a newer one than the newest at the time of its claim.
BLOCKHASH_BLOCKS = 150


@unique
class PaymentKind(IntEnum):
    """How a payment came here. The numbers are stored in the database."""

    STANDARD = 0  # Paid with a call; credited at once.
    SPONSORED = 1  # Relayed and co-signed; its payer confirms the deposit.
    SELF_PAID = 2  # Relayed unchanged.


@unique
class PaymentState(IntEnum):
    """The numbers are stored in the database; a payment in a state of 10 or above has ended."""

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
    """A stored payment. transaction: as it came until it is SENT, then with all signatures."""

    message_hash: bytes
    kind: PaymentKind
    state: PaymentState
    payer: bytes
    amount_base_units: int
    transaction: bytes
    signature: bytes  # Of the fee payer: its id on the chain. Empty before it is SENT.
    last_valid_height: int  # It cannot land in a higher block.
    created_at_ms: int
    slot: int = 0  # The slot in which it was seen; 0 before.
    reason: str = ""
    fee_lost: bool = False  # It landed and failed, so its fee was paid for nothing.
    source: bytes = b""  # The token account that the money leaves.
    newcomer: bool = False  # Sponsored for a wallet of which no payment had landed yet.
    brought_by: str = ""  # Of a newcomer's payment: the client's address, where it tells clients apart.


@dataclass(frozen=True, slots=True)
class Heights:
    """Of one node that did not know a signature: its final block height before that answer, and the oldest slot of its
    history after it."""

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
    record: Record, status: SignatureStatus | None, heights: Heights | None, wait_for_finalized: bool, now_ms: int
) -> Step:
    """Choose the next step. status None: no node knows the signature. heights None: unknown, so nothing expires."""
    if record.state is PaymentState.CLAIMED:
        return Step.ABANDON if now_ms - record.created_at_ms >= ABANDON_MS else Step.WAIT
    if status is None:
        return _unseen(record, heights, now_ms)
    if record.state is PaymentState.CREDITED:
        if not status.finalized:
            return Step.WAIT
        return Step.FINISH if status.error is None else Step.TAKE_BACK
    if status.error is not None:
        # A payment that failed in one fork may still succeed in another, so only a final failure ends it.
        return Step.FAIL if status.finalized else Step.WAIT
    if not has_landed(status, wait_for_finalized):
        return Step.WAIT
    return Step.CREDIT if record.kind is PaymentKind.STANDARD else Step.FINISH


def most_telling(record: Record, told: Sequence[Heights]) -> Heights | None:
    """Return the heights of the node, of those that do not know the payment, that proves most; never a mix of two."""
    late = [heights for heights in told if heights.finalized > record.last_valid_height]
    return min(late or told, key=lambda heights: heights.first_slot, default=None)


def has_landed(status: SignatureStatus, wait_for_finalized: bool) -> bool:
    """Return whether the payment succeeded, at the commitment that settlement waits for."""
    reached = status.finalized if wait_for_finalized else status.confirmed or status.finalized
    return reached and status.error is None


def has_failed(status: SignatureStatus) -> bool:
    """Return whether it failed at confirmed commitment, which is enough for the answer to the payer."""
    return status.error is not None and (status.confirmed or status.finalized)


def _unseen(record: Record, heights: Heights | None, now_ms: int) -> Step:
    if heights is None or heights.finalized <= record.last_valid_height:
        return Step.SEND_AGAIN
    if record.state is PaymentState.SENT:
        # If it landed after all, unseen by a node without history, the deposit watcher credits it.
        return Step.FAIL
    # It was credited. Only a node with the history of that slot proves that it is gone.
    provable = heights.first_slot <= record.slot and now_ms - record.created_at_ms <= PROVABLE_MS
    return Step.TAKE_BACK if provable else Step.GIVE_UP
