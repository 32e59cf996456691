import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.accounts import nonces as rules
from actors.accounts.nonces import (
    NONCE_SECONDS,
    PROOF_SECONDS,
    SLACK_SECONDS,
    Nonces,
    Signed,
    from_stored,
    nonces_max,
    signed_challenge,
    signed_request,
    stored_form,
)
from actors.calls import WalletProof
from actors.errors import Err
from actors.identity.challenge import AHEAD_SECONDS_MAX
from tests.accounts.making import ALICE, BOB, operation

NONCES = st.text("abcXYZ019-_:.,", min_size=1, max_size=128)
NOW = 1_700_000_000
RATE = 100


def signed(nonce: str, at: int = NOW, pubkey: bytes = ALICE) -> Signed:
    return signed_request(WalletProof(pubkey, nonce, at))


def use(nonces: Nonces, asked: Signed, number: int, now: int = NOW, steady: int = 0) -> Err | None:
    """Decide, and take it where that is allowed."""
    refusal = nonces.decide(asked, operation(number), RATE, now)
    if refusal is None and nonces.find(asked) is None:
        nonces.take(asked, operation(number), steady)
    return refusal


@given(NONCES, st.binary(min_size=16, max_size=16))
def test_what_is_stored_can_be_read_back(nonce: str, taken_by: bytes) -> None:
    """The separator is not among a nonce's characters."""
    assert from_stored(stored_form(nonce, taken_by)) == (nonce, taken_by)


@given(st.text(max_size=200), st.binary(min_size=16, max_size=16))
def test_an_unreadable_entry_refuses_everybody(text: str, asking: bytes) -> None:
    """A nonce of another form still counts as taken, whoever asks."""
    nonces = Nonces()
    nonces.restore(ALICE, text, NOW, 0)
    nonce, taken_by = from_stored(text)
    refusal = nonces.decide(signed(nonce), asking, RATE, NOW)
    assert refusal is (None if taken_by == asking else Err.NONCE_REUSED)


@given(
    st.lists(
        st.tuples(
            st.integers(0, 9), st.integers(-60, 60), st.integers(0, 40), st.integers(-2, 2), st.integers(-5_000, 5_000)
        ),
        max_size=80,
    )
)
def test_a_nonce_is_good_for_one_operation_whatever_the_clock_says(
    steps: list[tuple[int, int, int, int, int]],
) -> None:
    """Money rule 11, threat 53: ten messages, asked for again and again, while the owner's clock is moved at
    will and old nonces are forgotten at every step. Whoever took a nonce first has it, for good."""
    nonces = Nonces()
    messages: dict[int, Signed] = {}
    owners: dict[int, int] = {}
    steady = 0
    for number, (message, off, pause, who, moved) in enumerate(steps):
        steady += pause
        asked = messages.setdefault(message, signed(str(message), NOW + steady + off))
        wall = NOW + steady + (moved if abs(moved) > 2_500 else 0)  # Half of the time the clock is right.
        nonces.forget(wall, steady)
        operation_number = owners.get(message, number) if who == 0 else number
        if use(nonces, asked, operation_number, wall, steady) is None:
            assert owners.setdefault(message, operation_number) == operation_number


def test_another_operation_and_the_same_one_again() -> None:
    nonces = Nonces()
    assert use(nonces, signed("n"), 1) is None
    assert use(nonces, signed("n"), 2) is Err.NONCE_REUSED
    assert use(nonces, signed("n", NOW + 9), 3) is Err.NONCE_REUSED, "signed anew with the same nonce"
    assert use(nonces, signed("n"), 1) is None
    assert use(nonces, signed("n", pubkey=BOB), 4) is None
    assert use(nonces, signed("m"), 5) is None


@pytest.mark.threat(4)
def test_nonces_outlive_both_sides_of_the_time_window() -> None:
    """A message signed 60 s ahead is good for 120 s, and is refused or remembered long after that; memory is then given
    back."""
    nonces = Nonces()
    for off in (-PROOF_SECONDS, 0, PROOF_SECONDS):
        assert use(nonces, signed(f"signed at {off}", NOW + off), 1) is None
    for passed in range(400):
        nonces.forget(NOW + passed, passed)
        for off in (-PROOF_SECONDS, 0, PROOF_SECONDS):
            refusal = use(nonces, signed(f"signed at {off}", NOW + off), 2, NOW + passed, passed)
            assert refusal is not None
            assert refusal is Err.NONCE_REUSED or passed >= NONCE_SECONDS > 120
    assert (nonces.count, nonces._taken, nonces._due) == (0, {}, {})


def test_a_clock_that_is_set_back_makes_no_old_message_new() -> None:
    """Threat 53: the message was forgotten, its time has come again, and it is refused for good."""
    nonces = Nonces()
    assert use(nonces, signed("old"), 1) is None
    nonces.forget(NOW + 1_000, 1_000)
    assert nonces.count == 0
    for now in (NOW, NOW + PROOF_SECONDS, NOW - PROOF_SECONDS):
        assert use(nonces, signed("old"), 2, now, 1_001) is Err.SERVICE_TEMPORARILY_UNAVAILABLE


def test_a_clock_that_jumps_ahead_for_a_moment_forgets_nothing() -> None:
    """Threat 53: a day, for one tick: all nonces are still known, and messages that are good stay good."""
    nonces = Nonces()
    assert use(nonces, signed("n"), 1, NOW, 5) is None
    nonces.forget(NOW + 86_400, 6)
    assert use(nonces, signed("n"), 2, NOW + 2, 7) is Err.NONCE_REUSED
    assert use(nonces, signed("m", NOW - 55), 3, NOW + 2, 7) is None
    assert nonces.forgotten_until == 0


def test_a_message_is_judged_only_near_its_time() -> None:
    """The door's clock and the owner's differ by at most so much, the way between them included."""
    for now, refusal in (
        (NOW - PROOF_SECONDS - SLACK_SECONDS - 1, Err.SERVICE_TEMPORARILY_UNAVAILABLE),
        (NOW - PROOF_SECONDS - SLACK_SECONDS, None),
        (NOW + PROOF_SECONDS + SLACK_SECONDS, None),
        (NOW + PROOF_SECONDS + SLACK_SECONDS + 1, Err.SERVICE_TEMPORARILY_UNAVAILABLE),
    ):
        assert use(Nonces(), signed("n"), 1, now) is refusal


def test_messages_that_may_have_been_used_before_a_loss_are_refused() -> None:
    """Redis lost together with the owner restarted: refused by the message's own time, to the second."""
    nonces = Nonces()
    nonces.lost_until = NOW
    assert use(nonces, signed("n", NOW + PROOF_SECONDS), 1) is Err.SERVICE_TEMPORARILY_UNAVAILABLE
    assert use(nonces, signed("n", NOW + PROOF_SECONDS + 1), 1) is None


def test_a_challenge_is_kept_apart_from_nonces_of_requests() -> None:
    """And is good from the earliest moment at which a replica whose clock lags may be shown it."""
    challenge = signed_challenge(ALICE, b"\x01\x02", NOW, 300)
    assert challenge == (ALICE, "challenge/0102", NOW - AHEAD_SECONDS_MAX, NOW + 300)
    nonces = Nonces()
    assert use(nonces, challenge, 1) is None
    assert use(nonces, challenge, 2) is Err.NONCE_REUSED
    for passed in range(0, 800, 5):
        nonces.forget(NOW + passed, passed)
        assert use(nonces, challenge, 3, NOW + passed, passed) is not None
    assert nonces.count == 0


@pytest.mark.threat(4)
def test_nonces_are_bounded_by_the_accounts_rate() -> None:
    """Beyond what it could ever use, an account is told to slow down, and loses no nonce by it; others go on."""
    nonces = Nonces()
    for number in range(nonces_max(RATE)):
        assert use(nonces, signed(str(number)), number) is None
    assert use(nonces, signed("one more"), 1) is Err.RATE_LIMITED
    assert use(nonces, signed("7"), 1) is Err.NONCE_REUSED
    assert use(nonces, signed("7"), 7) is None
    assert use(nonces, signed("one more", pubkey=BOB), 1) is None
    assert nonces_max(RATE) == 2 * 130 * 100 == nonces_max(1)
    assert nonces_max(10_000) >= 10_000 * NONCE_SECONDS * 3 // 2


@pytest.mark.threat(4)
def test_nonces_of_all_accounts_are_bounded(monkeypatch) -> None:
    """When memory is full, signed requests wait until it is not; none is forgotten for it."""
    monkeypatch.setattr(rules, "NONCES_MAX", 3)
    nonces = Nonces()
    for number in range(3):
        assert use(nonces, signed("n", pubkey=bytes([number]) * 32), number) is None
    assert use(nonces, signed("n", pubkey=BOB), 4) is Err.SERVICE_TEMPORARILY_UNAVAILABLE
    nonces.forget(NOW + 200, 200)
    assert use(nonces, signed("n", NOW + 200, BOB), 4, NOW + 200, 200) is None


def test_a_nonce_that_two_operations_wrote_is_nobodys() -> None:
    """It cannot be told which of them was admitted."""
    nonces = Nonces()
    for number in (1, 2):
        nonces.restore(ALICE, stored_form("n", operation(number)), NOW + 60, 0)
    assert [use(nonces, signed("n"), number) for number in (1, 2, 3)] == [Err.NONCE_REUSED] * 3
