"""The next step of a claimed payment, for every state and every answer of the network."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.deposits.x402.states import (
    ABANDON_MS,
    PROVABLE_MS,
    Heights,
    PaymentKind,
    PaymentState,
    Record,
    Step,
    has_failed,
    has_landed,
    most_telling,
    next_step,
)
from actors.upstream.signature_status import SignatureStatus

RECORD = Record(
    b"h" * 32, PaymentKind.STANDARD, PaymentState.SENT, b"p" * 32, 100_000, b"tx", b"s" * 64, 1_000, 0, slot=500
)
CREDITED = replace(RECORD, state=PaymentState.CREDITED)
PROCESSED = SignatureStatus(501, None, confirmed=False, finalized=False)
CONFIRMED = SignatureStatus(501, None, confirmed=True, finalized=False)
FINAL = SignatureStatus(501, None, confirmed=True, finalized=True)
FAILED = SignatureStatus(501, "no", confirmed=True, finalized=False)
FAILED_FOR_GOOD = SignatureStatus(501, "no", confirmed=True, finalized=True)
EARLY, LATE = Heights(1_000, 0), Heights(1_001, 400)


@pytest.mark.parametrize(
    ("record", "status", "heights", "step"),
    [
        (RECORD, PROCESSED, LATE, Step.WAIT),
        (RECORD, CONFIRMED, EARLY, Step.CREDIT),
        (RECORD, FINAL, EARLY, Step.CREDIT),
        (RECORD, FAILED, EARLY, Step.WAIT),  # In another fork it may still succeed.
        (RECORD, FAILED_FOR_GOOD, EARLY, Step.FAIL),
        (RECORD, None, None, Step.SEND_AGAIN),
        (RECORD, None, EARLY, Step.SEND_AGAIN),
        (RECORD, None, LATE, Step.FAIL),
        (CREDITED, CONFIRMED, LATE, Step.WAIT),
        (CREDITED, FINAL, EARLY, Step.FINISH),
        (CREDITED, FAILED_FOR_GOOD, EARLY, Step.TAKE_BACK),
        (CREDITED, FAILED, LATE, Step.WAIT),
        (CREDITED, None, None, Step.SEND_AGAIN),
        (CREDITED, None, EARLY, Step.SEND_AGAIN),
        (CREDITED, None, LATE, Step.TAKE_BACK),
    ],
)
def test_steps(record, status, heights, step):
    """The table of the module, for a payment that is credited here."""
    assert next_step(record, status, heights, False, 0) is step


@pytest.mark.parametrize("kind", [PaymentKind.SPONSORED, PaymentKind.SELF_PAID])
def test_relayed_payments_are_never_credited_here(kind):
    """Their payer confirms the deposit."""
    record = replace(RECORD, kind=kind)
    assert next_step(record, CONFIRMED, EARLY, False, 0) is Step.FINISH
    assert next_step(record, None, LATE, False, 0) is Step.FAIL


def test_finalized_is_waited_for_where_that_is_set():
    """With finalized commitment a credited payment can never be taken back."""
    assert next_step(RECORD, CONFIRMED, EARLY, True, 0) is Step.WAIT
    assert next_step(RECORD, FINAL, EARLY, True, 0) is Step.CREDIT
    assert not has_landed(CONFIRMED, True) and has_landed(FINAL, True)


def test_silence_of_a_forgetful_node_proves_nothing():
    """Credits are taken back only where the node still has the slot in which the payment was seen."""
    assert next_step(CREDITED, None, Heights(1_001, 500), False, 0) is Step.TAKE_BACK
    assert next_step(CREDITED, None, Heights(1_001, 501), False, 0) is Step.GIVE_UP
    assert next_step(CREDITED, None, LATE, False, PROVABLE_MS) is Step.TAKE_BACK
    assert next_step(CREDITED, None, LATE, False, PROVABLE_MS + 1) is Step.GIVE_UP


def test_no_proof_is_made_of_two_nodes():
    """One node is current without history, the other has history and is behind: together they prove nothing."""
    forgetful, behind, good = Heights(1_001, 501), Heights(1_000, 0), Heights(1_001, 500)
    assert next_step(CREDITED, None, most_telling(CREDITED, [forgetful, behind]), False, 0) is Step.GIVE_UP
    assert most_telling(CREDITED, [forgetful, behind, good]) is good
    assert most_telling(CREDITED, [behind]) is behind and most_telling(CREDITED, []) is None


def test_a_claim_whose_settler_died_is_abandoned_in_time():
    """It was never signed, so it was never sent."""
    claimed = replace(RECORD, state=PaymentState.CLAIMED, signature=b"")
    assert next_step(claimed, None, LATE, False, ABANDON_MS - 1) is Step.WAIT
    assert next_step(claimed, None, LATE, False, ABANDON_MS) is Step.ABANDON


def test_a_failure_is_told_when_the_network_agrees_on_it():
    """Processed commitment at one node is not enough."""
    assert has_failed(FAILED) and has_failed(FAILED_FOR_GOOD)
    assert not has_failed(SignatureStatus(1, "no", confirmed=False, finalized=False)) and not has_failed(CONFIRMED)


statuss = st.none() | st.builds(
    SignatureStatus, st.integers(0, 999), st.none() | st.just("no"), confirmed=st.booleans(), finalized=st.booleans()
)
heights = st.none() | st.builds(Heights, st.integers(0, 2_000), st.integers(0, 999))


@given(
    kind=st.sampled_from(list(PaymentKind)),
    state=st.sampled_from([PaymentState.CLAIMED, PaymentState.SENT, PaymentState.CREDITED]),
    status=statuss,
    height=heights,
    wait=st.booleans(),
    now=st.integers(0, 10**9),
)
def test_no_step_moves_money_on_a_guess(kind, state, status, height, wait, now):
    """Credited only after success; taken back only after a final failure or expiry."""
    step = next_step(replace(RECORD, kind=kind, state=state), status, height, wait, now)
    if step is Step.CREDIT:
        assert (
            status is not None and status.error is None and kind is PaymentKind.STANDARD and state is PaymentState.SENT
        )
    if step is Step.TAKE_BACK:
        assert state is PaymentState.CREDITED
        if status is None:
            assert height is not None and height.finalized > RECORD.last_valid_height
        else:
            assert status.finalized and status.error is not None
    if step is Step.SEND_AGAIN:
        assert state is not PaymentState.CLAIMED and status is None
