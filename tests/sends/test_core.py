"""The rules of one race: when it broadcasts, what proves its end, and what each ticket then costs.

Then one race driven by anything that may happen, in any order, over a chain that decides by itself when it lands.
"""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from actors.sends.core import (
    BLOCKHASH_BLOCKS,
    BROADCASTS_MAX,
    RESEND_SLOTS,
    UNPROVEN_MS,
    UNPROVEN_SLOTS,
    WINDOW_SECONDS_MAX,
    WINDOW_SLOTS,
    Present,
    Proof,
    Race,
    RaceState,
    RaceStep,
    began,
    broadcast_begins,
    charge,
    ended,
    has_step,
    is_over,
    may_gain_confirmations,
    next_step,
    window_opens,
)
from actors.upstream.signature_status import SignatureStatus
from tests.sends.making import NOW, PRESENT, a_race, a_ticket, a_transaction

HASH = b"h" * 32
PROCESSED = SignatureStatus(105, None, confirmed=False, finalized=False)
CONFIRMED = SignatureStatus(105, None, confirmed=True, finalized=False)
ERRED = SignatureStatus(105, '{"InstructionError":[0,{"Custom":1}]}', confirmed=True, finalized=False)
FINAL = SignatureStatus(105, None, confirmed=False, finalized=True)


def broadcasts(slots: list[int | None]) -> tuple[Race, list[int | None]]:
    """Walk a race that nobody sees through these slots; gives those in which it broadcast."""
    race, at = a_race(), []
    for slot in slots:
        if next_step(race, slot, NOW) is RaceStep.BROADCAST:
            race = replace(broadcast_begins(race, slot), sent=True)
            at.append(slot)
    return race, at


def test_a_race_broadcasts_at_once_then_after_8_slots_twice_at_most() -> None:
    """Interface, "Re-send policy": re-send after 8 slots, at most 2 re-sends."""
    race, at = broadcasts(list(range(100, 140)))
    assert at == [100, 108, 116]
    assert (race.broadcasts, race.retries) == (3, 2)


def test_nothing_is_broadcast_when_the_window_is_over() -> None:
    """Timeout at 30 slots; a race whose start was held up does not broadcast late."""
    assert broadcasts([100, 130])[1] == [100]
    assert broadcasts([130, 131])[1] == []
    late = NOW + WINDOW_SECONDS_MAX * 1000
    assert next_step(a_race(), None, late) is RaceStep.WAIT
    assert is_over(a_race(), 129, late) and not is_over(a_race(), 129, late - 1) and is_over(a_race(), 130, NOW)


@given(st.lists(st.one_of(st.none(), st.integers(90, 140)), max_size=60))
def test_broadcasts_are_few_and_apart_whatever_slots_are_told(slots: list[int | None]) -> None:
    """Slots may be told out of order, or not at all."""
    race, at = broadcasts(slots)
    race.check()
    known = [slot for slot in at if slot is not None]
    assert len(at) <= BROADCASTS_MAX
    assert all(slot < 100 + WINDOW_SLOTS for slot in known)
    assert all(later - earlier >= RESEND_SLOTS for earlier, later in pairwise(known))
    assert race.retries == max(0, len(at) - 1)


def test_without_a_slot_there_is_a_first_broadcast_and_no_other() -> None:
    assert broadcasts([None] * 5)[1] == [None]


@pytest.mark.parametrize(
    ("seen", "step"),
    [(PROCESSED, RaceStep.WAIT), (CONFIRMED, RaceStep.CONFIRM), (FINAL, RaceStep.CONFIRM), (ERRED, RaceStep.FAIL)],
)
def test_only_what_is_confirmed_ends_a_race(seen: SignatureStatus, step: RaceStep) -> None:
    """A processed entry can vanish with its fork; and while it stands there is nothing to send again."""
    assert next_step(a_race(), 110, NOW, seen) is step


@pytest.mark.parametrize(
    ("proof", "expired"),
    [
        (None, False),
        (Proof(1_150, 50), False),
        (Proof(1_151, 50), True),
        (Proof(1_151, 100), True),
        (Proof(1_151, 101), False),
    ],
)
def test_a_race_expires_only_by_proof(proof: Proof | None, expired: bool) -> None:
    """Final height beyond the last valid one, and a history that reaches back to the start."""
    step = next_step(a_race(), 400, NOW + 90_000, None, [] if proof is None else [proof])
    assert step is (RaceStep.EXPIRE if expired else RaceStep.WAIT)


PROOF, NO_PROOF = Proof(1_151, 50), Proof(1_151, 101)


@pytest.mark.parametrize(
    ("proofs", "hours", "expired"),
    [
        ([PROOF], 0, False),
        ([PROOF, NO_PROOF], 0, False),
        ([PROOF, PROOF], 0, True),
        ([PROOF], 1, True),
        ([], 1, False),
    ],
)
def test_of_several_nodes_two_have_to_prove_an_expiry(proofs: list[Proof], hours: int, expired: bool) -> None:
    """One may have lost the transaction with its disk. After an hour the other one is taken to be away for good."""
    step = next_step(a_race(), 400, NOW + hours * 3_600_000, None, proofs, nodes=2)
    assert step is (RaceStep.EXPIRE if expired else RaceStep.WAIT)


def test_a_blockhash_that_our_node_has_not_seen_may_be_newer() -> None:
    """The client's node may be ahead, so the proof takes longer."""
    unseen = began(a_transaction(), replace(PRESENT, knows=False), NOW)
    assert unseen.last_valid_height == a_race().last_valid_height + 150


@pytest.mark.parametrize(
    ("height", "nonce", "expired"),
    [
        (1_151, b"n" * 32, True),
        (1_151, b"", True),
        (1_151, HASH, False),
        (1_151, None, False),
        (1_150, b"n" * 32, False),
    ],
)
def test_a_durable_nonce_expires_when_it_is_advanced(height: int, nonce: bytes | None, expired: bool) -> None:
    """Before the final state has passed the start, another value may be an older one."""
    step = next_step(a_race(nonce_account="nonce"), 400, NOW, None, [Proof(height, 50, nonce)])
    assert step is (RaceStep.EXPIRE if expired else RaceStep.WAIT)


def test_a_race_that_nobody_can_prove_is_given_up_after_a_day() -> None:
    """It costs base if it was broadcast: else a durable nonce would make races free."""
    later, slot = NOW + UNPROVEN_MS, 100 + UNPROVEN_SLOTS
    assert next_step(a_race(), slot, later - 1) is RaceStep.WAIT
    assert next_step(a_race(), slot, later) is RaceStep.GIVE_UP
    assert next_step(a_race(), None, later) is RaceStep.GIVE_UP
    given_up = ended(a_race(), RaceStep.GIVE_UP, None, later)
    assert charge(replace(given_up, sent=True), a_ticket()) == 2
    assert charge(given_up, a_ticket()) == 0


def test_a_wall_clock_that_jumps_a_day_gives_no_race_up() -> None:
    """Threat 53: the chain has not moved on."""
    assert next_step(a_race(), 100 + UNPROVEN_SLOTS - 1, NOW + UNPROVEN_MS) is RaceStep.WAIT


def test_a_new_window_broadcasts_again() -> None:
    """The same bytes sent again after the window: one more broadcast, which counts as a retry."""
    race, _ = broadcasts(list(range(100, 140)))
    again = window_opens(race, 200, NOW + 40_000)
    assert next_step(again, 200, NOW + 40_000) is RaceStep.BROADCAST
    assert broadcast_begins(again, 200).retries == 3


@pytest.mark.parametrize(
    ("step", "seen", "sent", "first", "credits"),
    [
        (RaceStep.CONFIRM, CONFIRMED, True, True, 50),
        (RaceStep.CONFIRM, CONFIRMED, True, False, 2),
        (RaceStep.CONFIRM, CONFIRMED, False, True, 50),  # The chain proves that it landed.
        (RaceStep.FAIL, ERRED, True, True, 2),
        (RaceStep.FAIL, ERRED, True, False, 2),
        (RaceStep.EXPIRE, None, True, True, 2),
        (RaceStep.EXPIRE, None, False, True, 0),
        (RaceStep.GIVE_UP, None, True, True, 2),
        (RaceStep.GIVE_UP, None, False, True, 0),
    ],
)
def test_each_outcome_has_its_charge(
    step: RaceStep, seen: SignatureStatus | None, sent: bool, first: bool, credits: int
) -> None:
    """Decisions: landing 50 and base 2; one landing charge for a race, base for the others; nothing if not sent.

    What every leg refused was not sent.
    """
    done = ended(replace(a_race(), sent=sent), step, seen, NOW + 5)
    assert charge(done, a_ticket(first=first)) == credits
    assert not done.state.open and done.ended_at_ms == NOW + 5
    assert (done.state is RaceState.FAILED) == (seen is ERRED)


@pytest.mark.parametrize(("slot", "credits"), [(99, 2), (100, 50), (105, 50)])
def test_a_landing_before_the_race_began_costs_base(slot: int, credits: int) -> None:
    """Decisions, "A transaction that landed before its race". The race of this test began in slot 100."""
    done = ended(a_race(), RaceStep.CONFIRM, replace(CONFIRMED, slot=slot), NOW + 5)
    assert charge(done, a_ticket(first=True)) == credits
    assert done.landed_before == (credits == 2)


@pytest.mark.parametrize("landed_in", [90, 100, 105])
def test_what_has_landed_when_a_race_begins_has_landed_before_it(landed_in: int) -> None:
    """Whatever slot the node tells: the node that knows the signature may be ahead of the one that tells the slot."""
    seen = replace(CONFIRMED, slot=landed_in)
    race = began(a_transaction(), PRESENT, NOW, seen)
    assert charge(ended(race, RaceStep.CONFIRM, seen, NOW), a_ticket(first=True)) == 2


@pytest.mark.parametrize(("slot", "may"), [(None, True), (106, True), (254, True), (255, False)])
def test_confirmations_are_asked_for_until_a_landing_is_rooted(slot: int | None, may: bool) -> None:
    done = ended(a_race(), RaceStep.CONFIRM, CONFIRMED, NOW)
    assert may_gain_confirmations(done, slot) == may
    assert not may_gain_confirmations(a_race(), slot)


def test_the_reason_of_an_expiry_is_told() -> None:
    assert "blockhash" in ended(a_race(), RaceStep.EXPIRE, None, NOW).error
    assert "nonce" in ended(a_race(nonce_account="nonce"), RaceStep.EXPIRE, None, NOW).error


START = 500
FINAL_SLOTS = 32


class RaceMachine(RuleBasedStateMachine):
    """The truth is kept here: where the chain is, and in which slot the transaction landed or will."""

    @initialize(known=st.booleans(), fails=st.booleans(), age=st.sampled_from((0, 20, 150)))
    def start(self, known: bool, fails: bool, age: int) -> None:
        """age: blocks that the blockhash is old already; a node that lags does not know a young one."""
        self.slot, self.now_ms, self.fails = START, NOW, fails
        lag = 0 if known else 120
        self.expires = START + BLOCKHASH_BLOCKS - age
        self.race = began(a_transaction(), Present(START, START - lag, known), NOW)
        self.stored = self.race
        self.lands: int | None = None
        self.left: list[int] = []  # Slots of broadcasts in this window.
        self.windows = 1

    @rule()
    def the_process_dies_and_another_takes_over(self) -> None:
        """Only what is stored is left."""
        self.race = self.stored

    @precondition(lambda self: self.race.state.open)
    @rule(
        slots=st.sampled_from((0, 1, 8, 8, 40, 200)),
        sees=st.booleans(),
        slot_known=st.booleans(),
        history=st.booleans(),
        delay=st.sampled_from((1, 60, 120)),
        arrives=st.booleans(),
        dies=st.booleans(),
    )
    def it_takes_its_next_step(
        self, slots: int, sees: bool, slot_known: bool, history: bool, delay: int, arrives: bool, dies: bool
    ) -> None:
        """sees: a node answers about the status; dies: the process is killed between the store and the first byte."""
        self.slot += slots
        self.now_ms += slots * 400
        # A node without that history does not know what has landed long ago.
        seen = self._seen() if sees and (history or self.lands is None or self.slot - self.lands < 20) else None
        proofs = [Proof(self.slot - FINAL_SLOTS, 0 if history else self.slot)] if sees and seen is None else []
        slot = self.slot if slot_known else None
        step = next_step(self.race, slot, self.now_ms, seen, proofs)
        if step is RaceStep.BROADCAST:
            self.race = self.stored = broadcast_begins(self.race, slot)
            if dies:
                return
            self.left.append(self.slot)
            self.race = self.stored = replace(self.race, sent=True)
            lands = self.slot + delay
            if arrives and lands <= self.expires:
                self.lands = lands if self.lands is None else min(self.lands, lands)
        elif step is not RaceStep.WAIT:
            self.race = self.stored = ended(self.race, step, seen, self.now_ms)

    @precondition(lambda self: self.race.state.open and is_over(self.race, self.slot, self.now_ms))
    @rule()
    def another_call_comes(self) -> None:
        self.race = self.stored = window_opens(self.race, self.slot, self.now_ms)
        self.left, self.windows = [], self.windows + 1

    @invariant()
    def it_broadcasts_by_the_rules(self) -> None:
        if hasattr(self, "race"):
            self.race.check()
            assert self.race.broadcasts <= 3 and len(self.left) <= 3
            assert all(slot < self.race.window_slot + WINDOW_SLOTS + 60 for slot in self.left)
            assert all(b - a >= RESEND_SLOTS for a, b in zip(self.left[1:], self.left[2:], strict=False))
            assert self.race.retries <= 3 * self.windows

    @invariant()
    def its_end_is_the_chains(self) -> None:
        """None is told failed that lands later, and a landing is charged only for what is on the chain."""
        if not hasattr(self, "race") or self.race.state.open:
            return
        first, other = a_ticket(first=True), a_ticket()
        charges = charge(self.race, first), charge(self.race, other)
        if self.race.state is RaceState.CONFIRMED:
            assert self.lands is not None and self.lands <= self.slot and not self.fails
            assert charges == (50, 2)
        elif self.race.state is RaceState.FAILED:
            assert self.lands is not None and self.fails and charges == (2, 2)
        elif self.race.state is RaceState.EXPIRED:
            assert self.lands is None, "told failed, and it lands"
            assert charges == ((2, 2) if self.race.sent else (0, 0))

    def _seen(self) -> SignatureStatus | None:
        if self.lands is None or self.lands > self.slot:
            return None
        age = self.slot - self.lands
        return SignatureStatus(self.lands, "err" if self.fails else None, age >= 2, age >= FINAL_SLOTS)


TestRaceMachine = RaceMachine.TestCase
TestRaceMachine.settings = settings(max_examples=300, stateful_step_count=12)

_STEPS = st.fixed_dictionaries(
    {
        "slots": st.sampled_from((0, 1, 8, 8, 40, 200)),
        "delay": st.sampled_from((1, 60, 120)),
        **{name: st.booleans() for name in ("sees", "slot_known", "history", "arrives", "dies")},
    }
)


@settings(max_examples=1_000)
@given(known=st.booleans(), age=st.sampled_from((0, 20, 150)), steps=st.lists(_STEPS, min_size=4, max_size=12))
def test_long_races_end_as_the_chain_has_them(known: bool, age: int, steps: list[dict[str, Any]]) -> None:
    """The same machine with many steps each: left to itself, Hypothesis prefers short runs."""
    machine: Any = RaceMachine()
    machine.start(known=known, fails=False, age=age)
    for step in steps:
        if machine.race.state.open:
            machine.it_takes_its_next_step(**step)
            machine.it_broadcasts_by_the_rules()
    machine.its_end_is_the_chains()


def test_a_race_that_waits_is_not_woken() -> None:
    """A racer looks at thousands of races several times a second; most have nothing to do."""
    new = a_race()
    assert has_step(new, 100, NOW, None)
    begun = broadcast_begins(new, 100)
    processed, confirmed = (SignatureStatus(105, None, level, False) for level in (False, True))
    assert not has_step(begun, 100 + RESEND_SLOTS - 1, NOW, None) and has_step(begun, 100 + RESEND_SLOTS, NOW, None)
    assert not has_step(begun, 101, NOW, processed) and has_step(begun, 101, NOW, confirmed)
    last = replace(begun, broadcasts=BROADCASTS_MAX)
    assert not has_step(last, 100 + WINDOW_SLOTS - 1, NOW, None) and has_step(last, 100 + WINDOW_SLOTS, NOW, None)
    assert has_step(last, None, NOW + WINDOW_SECONDS_MAX * 1_000, None)
    assert has_step(ended(begun, RaceStep.CONFIRM, confirmed, NOW), 101, NOW, None)
