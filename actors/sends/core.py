"""One race: a signed transaction on its way to the chain over several legs, followed until its outcome is proven.

Implements: interface, "sendAndConfirm outcome" and "Re-send policy"; decisions, "expired send" and "same
bytes sent again"; threat 18; money rules 1 and 2.
Pure: slots and times are arguments. The stored race alone is enough to go on after a crash: `next_step` names what to
do, and each function that gives a changed race stands for one durable write of the store.

| State | Means | Charged |
|---|---|---|
| OPEN | it may have been broadcast, and may land | pending |
| CONFIRMED | it landed and succeeded | landing for the first ticket, base for others; base if before the start |
| FAILED | it landed with an error | base |
| EXPIRED | it can never land: proven | base if it was broadcast, else nothing |
| UNPROVEN | nothing could be proven for a day | base if it was broadcast, else nothing |

A *window* is the time in which a race broadcasts: at most three times, in 30 slots. A call after it opens another one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum, IntEnum, unique

from actors.methods.signed_transactions import SignedTransaction
from actors.upstream.signature_status import SignatureStatus

RESEND_SLOTS = 8
BROADCASTS_MAX = 3  # The first one, and two more.
WINDOW_SLOTS = 30
# Used when the slot is unknown because no node answers: twice 30 slots at the nominal 400 ms.
WINDOW_SECONDS_MAX = 24
BLOCKHASH_BLOCKS = 150  # A blockhash is valid for this many blocks after its own.
# Of a blockhash that our node has not seen: the client's node may be ahead by what makes a node unhealthy, 128 slots.
UNSEEN_BLOCKS = 150
UNPROVEN_MS = 24 * 3_600_000
# The chain must have moved on too: a wall clock that jumps a day ahead proves nothing. 11 h at the nominal 400 ms.
UNPROVEN_SLOTS = 100_000
# After this time past its window, the proof of one node suffices even if others are configured: they may be gone for
# good.
ONE_PROOF_MS = 3_600_000
# So long after its window an open race is looked at often, then after each quarter of its further age. A durable nonce
# may stay for a day.
LOOK_OFTEN_MS = 300_000
ROOTED_SLOTS = 150  # By then a landed transaction is rooted: 31 slots, and more where slots were skipped.
HOLD_MS = 60_000  # As long as a hold lasts: until then its credits are there to pay for a landing.
LEGS_ROWS_MAX = 24  # The newest rows of the timeline: three broadcasts on a few legs, in a few windows.


@unique
class RaceState(IntEnum):
    """Where a race stands. The numbers are stored; from 10 on it has ended."""

    OPEN = 0
    CONFIRMED = 10
    FAILED = 11
    EXPIRED = 12
    UNPROVEN = 13

    @property
    def open(self) -> bool:
        return self < RaceState.CONFIRMED


@dataclass(frozen=True, slots=True)
class Race:
    """A race as it is stored.

    last_valid_height: no blockhash that was known at the start is good in a higher block. nonce_account: of a durable
    nonce, which stays good until it is advanced.
    started_slot: the first slot in which a landing may be the work of this race.
    broadcasts: begun in the present window; each is stored before its first byte leaves. sent: they left on some leg,
    and it did not refuse them.
    """

    signature: bytes
    transaction: bytes
    blockhash: bytes
    nonce_account: str | None
    last_valid_height: int
    started_at_ms: int
    started_slot: int
    window_at_ms: int
    window_slot: int
    last_slot: int  # Slot in which the latest broadcast began.
    broadcasts: int = 0
    retries: int = 0  # Broadcasts except the first, in all windows.
    sent: bool = False
    state: RaceState = RaceState.OPEN
    slot: int = 0  # Slot in which it landed; 0 before.
    error: str = ""
    ended_at_ms: int = 0

    @property
    def landed_before(self) -> bool:
        """Return whether the transaction was on the chain before this race began, so that the race did nothing."""
        return 0 < self.slot < self.started_slot

    def check(self) -> None:
        assert 0 <= self.broadcasts <= BROADCASTS_MAX, self
        assert self.state.open == (self.ended_at_ms == 0), self
        assert (self.slot > 0) == (self.state in (RaceState.CONFIRMED, RaceState.FAILED)), self


@dataclass(frozen=True, slots=True)
class Ticket:
    """One call's share in a race: the hold that it ends, and whose it is. landing, base: prices pinned at the call.

    first: it pays for the landing: it is the first of its race, or of those whose hold had not expired when the next
    call came. charged: None until the hold has ended. key: number of the named key that pays; 0: none does.
    """

    operation: bytes
    pubkey: bytes
    epoch: int
    method: str
    landing: int
    base: int
    signature: bytes
    opened_at_ms: int
    first: bool = False
    charged: int | None = None
    key: int = 0


@dataclass(frozen=True, slots=True)
class Proof:
    """The other answers of a node that does not know the signature.

    height: its final block height, asked before the signature: the transaction did not land at or below it.
    first_slot: the oldest slot of its history, asked afterwards. nonce: value of the nonce account at finalized
    commitment, asked before; None if not asked or unknown, empty if there is no such account.
    """

    height: int
    first_slot: int
    nonce: bytes | None = None


@unique
class RaceStep(Enum):
    WAIT = "wait"
    BROADCAST = "broadcast"
    CONFIRM = "confirm"
    FAIL = "fail"
    EXPIRE = "expire"
    GIVE_UP = "give up"


@dataclass(frozen=True, slots=True)
class Present:
    """Where the chain is, at processed commitment. knows: whether the node that was asked knows the blockhash."""

    slot: int
    height: int
    knows: bool


def began(signed: SignedTransaction, present: Present, now_ms: int, landed: SignatureStatus | None = None) -> Race:
    """Make a new race. landed: the status of the signature before anything is sent.

    A blockhash that the node knows is not newer than its newest block, so 150 more blocks bound its life.
    """
    slot, last = present.slot, present.height + BLOCKHASH_BLOCKS + (0 if present.knows else UNSEEN_BLOCKS)
    started = slot if landed is None else max(slot, landed.slot + 1)
    of_chain = signed.signature, signed.raw, signed.blockhash, signed.nonce_account
    return Race(*of_chain, last, now_ms, started, now_ms, slot, slot)


def next_step(
    race: Race,
    slot: int | None,
    now_ms: int,
    seen: SignatureStatus | None = None,
    proofs: Sequence[Proof] = (),
    nodes: int = 1,
) -> RaceStep:
    """Decide what a race does now.

    slot: the newest one known; None when nobody tells. proofs: of the nodes that do not know the signature, one each.
    nodes: how many could be asked. With several, two have to prove an expiry: one may have lost what it had.
    """
    assert race.state.open, race
    if seen is not None:
        if seen.counts:
            return RaceStep.CONFIRM if seen.error is None else RaceStep.FAIL
        return RaceStep.WAIT  # It landed in a fork: sending again would not help.
    wanted = 1 if nodes < 2 or now_ms - race.window_at_ms >= ONE_PROOF_MS else 2
    if sum(_expired(race, proof) for proof in proofs) >= wanted:
        return RaceStep.EXPIRE
    if may_broadcast(race, slot, now_ms):
        return RaceStep.BROADCAST
    moved_on = slot is None or slot >= race.window_slot + UNPROVEN_SLOTS
    if now_ms - race.window_at_ms >= UNPROVEN_MS and moved_on:
        return RaceStep.GIVE_UP
    return RaceStep.WAIT


def has_step(race: Race, slot: int | None, now_ms: int, seen: SignatureStatus | None) -> bool:
    """Return whether there is anything to do for a race whose window is open, or its window has ended."""
    if not race.state.open or is_over(race, slot, now_ms):
        return True
    return next_step(race, slot, now_ms, seen) is not RaceStep.WAIT


def may_broadcast(race: Race, slot: int | None, now_ms: int) -> bool:
    if race.broadcasts == 0:
        return not is_over(race, slot, now_ms)
    if race.broadcasts >= BROADCASTS_MAX or slot is None:
        return False
    return slot >= race.last_slot + RESEND_SLOTS and not is_over(race, slot, now_ms)


def is_over(race: Race, slot: int | None, now_ms: int) -> bool:
    """Return whether the window has ended: callers hear `unknown`, and nothing is broadcast any more."""
    if slot is not None and slot >= race.window_slot + WINDOW_SLOTS:
        return True
    return now_ms - race.window_at_ms >= WINDOW_SECONDS_MAX * 1000


def broadcast_begins(race: Race, slot: int | None) -> Race:
    """Make the race that is stored before the first byte of its next broadcast leaves."""
    at = race.last_slot if slot is None else max(slot, race.last_slot)
    retry = race.sent or race.broadcasts > 0
    return replace(race, broadcasts=race.broadcasts + 1, last_slot=at, retries=race.retries + int(retry))


def window_opens(race: Race, slot: int, now_ms: int) -> Race:
    """Begin another window, because a call came after the one before: the transaction may be broadcast again."""
    return replace(race, broadcasts=0, window_slot=slot, last_slot=slot, window_at_ms=now_ms)


def ended(race: Race, step: RaceStep, seen: SignatureStatus | None, now_ms: int) -> Race:
    match step:
        case RaceStep.CONFIRM | RaceStep.FAIL:
            assert seen is not None and seen.counts, race
            state = RaceState.CONFIRMED if step is RaceStep.CONFIRM else RaceState.FAILED
            done = replace(race, state=state, slot=seen.slot, error=seen.error or "", ended_at_ms=now_ms)
        case RaceStep.EXPIRE:
            reason = "the nonce has been advanced" if race.nonce_account else "the blockhash has expired"
            done = replace(race, state=RaceState.EXPIRED, error=f"it can no longer land: {reason}", ended_at_ms=now_ms)
        case RaceStep.GIVE_UP:
            done = replace(race, state=RaceState.UNPROVEN, ended_at_ms=now_ms)
        case _:
            raise AssertionError(step)
    done.check()
    return done


def charge(race: Race, ticket: Ticket) -> int:
    """Return what a ticket of an ended race costs. It follows from what is stored alone, so it can be asked again."""
    assert not race.state.open, race
    match race.state:
        case RaceState.CONFIRMED:
            return ticket.landing if ticket.first and not race.landed_before else ticket.base
        case RaceState.FAILED:
            return ticket.base
        case RaceState.EXPIRED | RaceState.UNPROVEN if race.sent:
            return ticket.base
    return 0


def may_gain_confirmations(race: Race, slot: int | None) -> bool:
    """Return whether the landed transaction of a race may not be rooted yet. Nodes count no further after that."""
    return race.slot > 0 and (slot is None or slot < race.slot + ROOTED_SLOTS)


def _expired(race: Race, proof: Proof) -> bool:
    """The node's history must reach back to the start. A nonce that is newer than the final state looks like an old one
    until the final state has passed the newest block of the start, so it too waits for the height."""
    if proof.height <= race.last_valid_height or proof.first_slot > race.started_slot:
        return False
    return race.nonce_account is None or (proof.nonce is not None and proof.nonce != race.blockhash)
