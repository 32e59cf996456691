import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.calls import Figures, HoldReply, KeyProof, ProvenProof, SessionProof, WalletProof
from actors.gateway.calls import known_accounts
from actors.gateway.calls.known_accounts import (
    CREDITS_FACTOR,
    FRESH_SECONDS,
    IN_STEP_SECONDS,
    SLOTS_SHARE,
    KnownAccounts,
)

KEY = KeyProof(b"k" * 32, bytes(8))
NOW, SECOND = 1_000.0, 1_700_000_000


def told(
    credits: int = 1_000, limit: int = 100, remaining: int = 100, reset: int = SECOND + 1, slots: int = 64
) -> HoldReply:
    return HoldReply(b"p" * 32, 7, None, (None,), Figures(credits, limit, remaining, reset), slots=slots)


def known_by(reply: HoldReply) -> KnownAccounts:
    known = KnownAccounts()
    known.learn(KEY, reply, NOW)
    return known


def test_an_account_that_can_pay_leaves_no_doubt_until_its_word_is_old() -> None:
    known = known_by(told())
    found = known.without_doubt(KEY, 5, NOW + FRESH_SECONDS, SECOND, 1)
    assert found is not None and (found.pubkey, found.epoch) == (b"p" * 32, 7)
    assert known.without_doubt(KEY, 5, NOW + FRESH_SECONDS + 0.1, SECOND, 1) is None
    assert known.without_doubt(KeyProof(b"x" * 32, bytes(8)), 5, NOW, SECOND, 1) is None


@given(st.integers(0, 10_000), st.integers(1, 200), st.integers(0, 200), st.integers(1, 50), st.sampled_from([0, 1, 2]))
def test_a_call_is_asked_ahead_only_with_credits_and_rate_to_spare(
    credits: int, limit: int, remaining: int, ceiling: int, later: int
) -> None:
    """decisions, "Calls asked ahead": a hundred such calls could be paid, a quarter of the rate is left."""
    found = known_by(told(credits, limit, min(remaining, limit))).without_doubt(KEY, ceiling, NOW, SECOND + later, 1)
    left = limit if later else min(remaining, limit)
    assert (found is not None) == (credits >= CREDITS_FACTOR * ceiling and left >= max(2, limit // 4))


@given(st.integers(0, 100), st.integers(1, 40))
def test_no_more_are_in_flight_than_a_quarter_of_the_free_slots(slots: int, in_flight: int) -> None:
    """One always may, also for an owner of before, which tells no slots. Where one is held, all are for a moment."""
    known = known_by(told(slots=slots))
    may = in_flight <= max(1, slots // SLOTS_SHARE)
    assert (known.without_doubt(KEY, 1, NOW, SECOND, in_flight) is not None) == may
    assert (known.without_doubt(KEY, 1, NOW, SECOND, 1) is not None) == may
    assert known.without_doubt(KEY, 1, NOW + IN_STEP_SECONDS, SECOND, 1) is not None


@given(st.integers(0, 20), st.integers(0, 3_000), st.integers(0, 100))
def test_calls_that_are_being_asked_ahead_are_counted(asking: int, credits: int, remaining: int) -> None:
    """Each could pay a hundred calls, and has taken its unit of the rate. Newer figures of the owner do not end it."""
    known = known_by(told())
    found = known.without_doubt(KEY, 1, NOW, SECOND, 1)
    assert found is not None
    found.asking = asking
    known.learn(KEY, told(credits, 100, remaining), NOW)
    may = credits >= CREDITS_FACTOR * (asking + 1) and remaining - asking >= 25
    assert known.without_doubt(KEY, 1, NOW, SECOND, 1) is (found if may else None)


def test_a_refusal_and_a_credential_that_is_good_once_leave_doubt() -> None:
    known = known_by(told())
    known.forget(KEY)
    assert known.without_doubt(KEY, 1, NOW, SECOND, 1) is None
    for proof in (WalletProof(b"p" * 32, "nonce", SECOND), ProvenProof(b"p" * 32)):
        known.learn(proof, told(), NOW)
        assert known.without_doubt(proof, 1, NOW, SECOND, 1) is None
    session = SessionProof(b"s" * 32, bytes(8))
    known.learn(session, told(), NOW)
    assert known.without_doubt(session, 1, NOW, SECOND, 1) is not None


def test_the_credential_told_about_longest_ago_is_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_accounts, "KNOWN_MAX", 2)
    known, keys = KnownAccounts(), [KeyProof(bytes([number]) * 32, bytes(8)) for number in range(3)]
    for key in (keys[0], keys[1], keys[0], keys[2]):
        known.learn(key, told(), NOW)
    assert [known.without_doubt(key, 1, NOW, SECOND, 1) is not None for key in keys] == [True, False, True]
