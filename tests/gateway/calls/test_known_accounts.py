import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.calls import Figures, HoldReply, KeyProof, Proof, ProvenProof, SessionProof, WalletProof
from actors.gateway.calls import known_accounts
from actors.gateway.calls.known_accounts import (
    CREDITS_FACTOR,
    FRESH_SECONDS,
    GRANTED_MAX,
    IN_STEP_SECONDS,
    SLOTS_SHARE,
    KnownAccount,
    KnownAccounts,
)

KEY = KeyProof(b"k" * 32, bytes(8))
NOW, SECOND = 1_000.0, 1_700_000_000


def told(
    credits: int = 1_000,
    limit: int = 100,
    remaining: int = 100,
    reset: int = SECOND + 1,
    slots: int = 64,
    key: int = 0,
    pubkey: bytes = b"p" * 32,
    hour_left: int | None = None,
) -> HoldReply:
    figures = Figures(credits, limit, remaining, reset)
    return HoldReply(pubkey, 7, None, (None,), figures, key, slots=slots, hour_left=hour_left)


def known_by(reply: HoldReply) -> KnownAccounts:
    known = KnownAccounts()
    known.learn(KEY, reply, NOW, "getSlot")
    return known


def doubtless(known: KnownAccounts, proof: Proof, *doubts: Any, method: str = "getSlot") -> KnownAccount | None:
    return known.without_doubt(proof, *doubts, method)


def test_an_account_that_can_pay_leaves_no_doubt_until_its_word_is_old() -> None:
    known = known_by(told())
    found = doubtless(known, KEY, 5, NOW + FRESH_SECONDS, SECOND, 1)
    assert found is not None and (found.pubkey, found.epoch) == (b"p" * 32, 7)
    assert doubtless(known, KEY, 5, NOW + FRESH_SECONDS + 0.1, SECOND, 1) is None
    assert doubtless(known, KeyProof(b"x" * 32, bytes(8)), 5, NOW, SECOND, 1) is None


@given(st.integers(0, 10_000), st.integers(1, 200), st.integers(0, 200), st.integers(1, 50), st.sampled_from([0, 1, 2]))
def test_a_call_is_asked_ahead_only_with_credits_and_rate_to_spare(
    credits: int, limit: int, remaining: int, ceiling: int, later: int
) -> None:
    """decisions, "Calls asked ahead": a hundred such calls could be paid, a quarter of the rate is left."""
    found = doubtless(known_by(told(credits, limit, min(remaining, limit))), KEY, ceiling, NOW, SECOND + later, 1)
    left = limit if later else min(remaining, limit)
    assert (found is not None) == (credits >= CREDITS_FACTOR * ceiling and left >= max(2, limit // 4))


@pytest.mark.threat(75)
@given(st.integers(0, 3_000), st.integers(1, 25), st.integers(0, 5))
def test_the_hourly_limit_leaves_as_much_to_spare_as_the_credits(hour_left: int, ceiling: int, asking: int) -> None:
    """Free calls go on at the limit, and each granted one would let some dear calls be asked for nothing."""
    known = known_by(told(1_000_000))
    assert doubtless(known, KEY, ceiling, NOW, SECOND, 1) is not None, "no limit is in force"
    for _ in range(asking):
        known.began(b"p" * 32)
    known.learn(KEY, told(1_000_000, hour_left=hour_left), NOW, "rpc.discover")
    may = hour_left >= CREDITS_FACTOR * ceiling * (1 + asking)
    assert (doubtless(known, KEY, ceiling, NOW, SECOND, 1) is not None) == may


@given(st.integers(0, 100), st.integers(1, 40))
def test_no_more_are_in_flight_than_a_quarter_of_the_free_slots(slots: int, in_flight: int) -> None:
    """One always may, also for an owner of before, which tells no slots. Where one is held, all are for a moment."""
    known = known_by(told(slots=slots))
    may = in_flight <= max(1, slots // SLOTS_SHARE)
    assert (doubtless(known, KEY, 1, NOW, SECOND, in_flight) is not None) == may
    assert (doubtless(known, KEY, 1, NOW, SECOND, 1) is not None) == may
    assert doubtless(known, KEY, 1, NOW + IN_STEP_SECONDS, SECOND, 1) is not None


@given(st.integers(0, 20), st.integers(0, 3_000), st.integers(0, 100), st.booleans())
def test_calls_that_are_being_asked_ahead_are_counted(
    asking: int, credits: int, remaining: int, is_known: bool
) -> None:
    """Each could pay a hundred calls, and has taken its unit of the rate, whatever key of the account it came with.
    Neither newer figures of the owner nor a refusal end it."""
    known, other = known_by(told()), KeyProof(b"o" * 32, bytes(8))
    for _ in range(asking + 1):
        known.began(b"p" * 32)
    known.ended(b"p" * 32)
    if not is_known:
        known.forget(KEY)
    may = credits >= CREDITS_FACTOR * (asking + 1) and remaining - asking >= 25
    for key in (KEY, other):
        known.learn(key, told(credits, 100, remaining), NOW, "getSlot")
        assert (doubtless(known, key, 1, NOW, SECOND, 1) is not None) == may
    for _ in range(asking):
        known.ended(b"p" * 32)
    assert not known._asking, "nothing is kept of an account that asks nothing"


def test_a_refusal_and_a_credential_that_is_good_once_leave_doubt() -> None:
    known = known_by(told())
    known.forget(KEY)
    assert doubtless(known, KEY, 1, NOW, SECOND, 1) is None
    for proof in (WalletProof(b"p" * 32, "nonce", SECOND), ProvenProof(b"p" * 32)):
        known.learn(proof, told(), NOW, "getSlot")
        assert doubtless(known, proof, 1, NOW, SECOND, 1) is None
    session = SessionProof(b"s" * 32, bytes(8))
    known.learn(session, told(), NOW, "getSlot")
    assert doubtless(known, session, 1, NOW, SECOND, 1) is not None


def test_what_is_remembered_of_a_named_key_is_small_whatever_its_callers_send() -> None:
    """Ten thousand keys, as children of one, with 64 long origins each took 300 MB of a replica, for free calls."""
    known = KnownAccounts()
    tracemalloc.start()
    try:
        for number in range(GRANTED_MAX):
            origin = f"{number}\u00e9".ljust(300, "x")
            known.learn(KeyProof(b"n" * 32, bytes(8), "10.0.0.1", origin), told(key=3), NOW, "getSlot")
        assert tracemalloc.get_traced_memory()[0] < 8_000
    finally:
        tracemalloc.stop()


def test_the_credential_told_about_longest_ago_is_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_accounts, "KNOWN_MAX", 2)
    known, keys = KnownAccounts(), [KeyProof(bytes([number]) * 32, bytes(8)) for number in range(3)]
    for key in (keys[0], keys[1], keys[0], keys[2]):
        known.learn(key, told(), NOW, "getSlot")
    assert [doubtless(known, key, 1, NOW, SECOND, 1) is not None for key in keys] == [True, False, True]


@pytest.mark.threat(75)
def test_a_refusal_leaves_doubt_of_all_credentials_of_its_account() -> None:
    """decisions, "Calls asked ahead": else each of its hundred keys could have as many answers thrown away as one."""
    known, keys = KnownAccounts(), [KeyProof(bytes([number]) * 32, bytes(8)) for number in range(4)]
    for number, key in enumerate(keys):
        known.learn(key, told(pubkey=b"a" * 32 if number < 3 else b"b" * 32), NOW, "getSlot")
    known.learn(keys[2], told(pubkey=b"b" * 32), NOW, "getSlot")
    known.forget(keys[0])
    known.forget(keys[0])
    assert [doubtless(known, key, 1, NOW, SECOND, 1) is not None for key in keys] == [False, False, True, True]
    known.learn(keys[1], told(pubkey=b"a" * 32), NOW, "getSlot")
    assert doubtless(known, keys[1], 1, NOW, SECOND, 1) is not None


def test_a_named_key_leaves_no_doubt_only_for_what_it_was_granted_before() -> None:
    """A named key may be bound to methods, addresses and origins: then the owner refuses all others, after the node's
    work."""
    known, key = KnownAccounts(), KeyProof(b"n" * 32, bytes(8), "10.0.0.1", "https://shop.example")
    known.learn(key, told(key=3), NOW, "getSlot")
    assert doubtless(known, key, 1, NOW, SECOND, 1) is not None
    assert doubtless(known, key, 1, NOW, SECOND, 1, method="getProgramAccounts") is None
    for other in (KeyProof(b"n" * 32, bytes(8), "10.0.0.1"), KeyProof(b"n" * 32, bytes(8), "", "https://shop.example")):
        assert doubtless(known, other, 1, NOW, SECOND, 1) is None
    known.learn(key, told(key=3), NOW, "getProgramAccounts")
    for method in ("getSlot", "getProgramAccounts"):
        assert doubtless(known, key, 1, NOW, SECOND, 1, method=method) is not None
    for number in range(GRANTED_MAX - 1):
        known.learn(key, told(key=3), NOW, f"method{number}")
    assert doubtless(known, key, 1, NOW, SECOND, 1) is None, "what is remembered is bounded"
    known.learn(key, told(key=0), NOW, "getSlot")
    assert doubtless(known, key, 1, NOW, SECOND, 1, method="getBalance") is not None, "an own key is bound to nothing"
