"""The rules of one race: when it broadcasts, what proves its end, and what each ticket then costs."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.sends.core import (
    BROADCASTS_MAX,
    RESEND_SLOTS,
    UNPROVEN_MS,
    WINDOW_SECONDS_MAX,
    WINDOW_SLOTS,
    Proof,
    Race,
    RaceState,
    RaceStep,
    SendStatus,
    Ticket,
    began,
    broadcast_begins,
    charge,
    ended,
    is_over,
    next_step,
    window_opens,
)

NOW = 1_000_000
HASH = b"h" * 32
PROCESSED = SendStatus(105, None, confirmed=False, finalized=False)
CONFIRMED = SendStatus(105, None, confirmed=True, finalized=False)
ERRED = SendStatus(105, '{"InstructionError":[0,{"Custom":1}]}', confirmed=True, finalized=False)
FINAL = SendStatus(105, None, confirmed=False, finalized=True)


def a_race(nonce_account: str | None = None, known: bool = True) -> Race:
    return began(b"s" * 64, b"raw", HASH, nonce_account, 1_000, known, 100, NOW)


def a_ticket(first: bool = True) -> Ticket:
    return Ticket(b"o" * 16, b"p" * 32, 1, "sendAndConfirm", 50, 2, b"s" * 64, NOW, first)


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
def test_only_what_is_confirmed_ends_a_race(seen: SendStatus, step: RaceStep) -> None:
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
    step = next_step(a_race(), 400, NOW + 90_000, None, proof)
    assert step is (RaceStep.EXPIRE if expired else RaceStep.WAIT)


def test_a_blockhash_that_our_node_has_not_seen_may_be_newer() -> None:
    """The client's node may be ahead, so the proof takes longer."""
    assert a_race(known=False).last_valid_height == a_race().last_valid_height + 150


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
    step = next_step(a_race("nonce"), 400, NOW, None, Proof(height, 50, nonce))
    assert step is (RaceStep.EXPIRE if expired else RaceStep.WAIT)


def test_a_race_that_nobody_can_prove_is_given_up_after_a_day() -> None:
    assert next_step(a_race(), 400, NOW + UNPROVEN_MS - 1) is RaceStep.WAIT
    given_up = ended(a_race(), RaceStep.GIVE_UP, None, NOW + UNPROVEN_MS)
    assert next_step(a_race(), 400, NOW + UNPROVEN_MS) is RaceStep.GIVE_UP
    assert charge(replace(given_up, sent=True), a_ticket()) == 0


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
        (RaceStep.GIVE_UP, None, True, True, 0),
    ],
)
def test_each_outcome_has_its_charge(
    step: RaceStep, seen: SendStatus | None, sent: bool, first: bool, credits: int
) -> None:
    """Decisions: landing 50 and base 2; one landing charge for a race, base for the others; nothing if not sent."""
    done = ended(replace(a_race(), sent=sent), step, seen, NOW + 5)
    assert charge(done, a_ticket(first)) == credits
    assert not done.state.open and done.ended_at_ms == NOW + 5
    assert (done.state is RaceState.FAILED) == (seen is ERRED)


def test_the_reason_of_an_expiry_is_told() -> None:
    assert "blockhash" in ended(a_race(), RaceStep.EXPIRE, None, NOW).error
    assert "nonce" in ended(a_race("nonce"), RaceStep.EXPIRE, None, NOW).error
