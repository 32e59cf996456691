"""Challenges that need no table. Interface, "Session challenge"; threat 35."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.identity.challenge import (
    AHEAD_SECONDS_MAX,
    check_challenge,
    issued_at,
    new_challenge,
    verify_challenge_signature,
)
from actors.units import routing_bytes

from .wallets import NOW, wallet

SECRET = b"the cluster's secret"
PUBKEY = wallet().pubkey


def live(text: str, pubkey: bytes = PUBKEY, now: int = NOW, secret: bytes = SECRET) -> bool:
    return check_challenge(secret, text, pubkey, now, 300) is not None


@given(
    pubkey=st.binary(min_size=32, max_size=32), randomness=st.binary(min_size=4, max_size=4), age=st.integers(0, 299)
)
def test_a_challenge_is_good_for_its_key_while_it_lives(pubkey: bytes, randomness: bytes, age: int) -> None:
    text = new_challenge(SECRET, pubkey, NOW, randomness)
    assert re.fullmatch("[0-9a-f]{64}", text)
    assert bytes.fromhex(text)[:8] == routing_bytes(pubkey)
    challenge_id = check_challenge(SECRET, text, pubkey, NOW + age, 300)
    assert challenge_id is not None
    assert challenge_id == check_challenge(SECRET, text, pubkey, NOW, 300)
    assert issued_at(text) == NOW


@pytest.mark.parametrize(
    ("age", "good"),
    [(299, True), (300, False), (10**9, False), (-AHEAD_SECONDS_MAX, True), (-AHEAD_SECONDS_MAX - 1, False)],
)
def test_a_challenge_expires(age: int, good: bool) -> None:
    """Interface: valid for 300 seconds. One from far in the future is a broken clock's and would live too long."""
    assert live(new_challenge(SECRET, PUBKEY, NOW, b"rand"), now=NOW + age) is good


def test_a_challenge_of_another_key_or_cluster_is_none() -> None:
    text = new_challenge(SECRET, PUBKEY, NOW, b"rand")
    assert not live(text, pubkey=wallet(2).pubkey)
    assert not live(text, secret=b"another secret")


@given(position=st.integers(0, 63), letter=st.sampled_from("0123456789abcdef"))
def test_a_challenge_with_any_character_changed_is_none(position: int, letter: str) -> None:
    text = new_challenge(SECRET, PUBKEY, NOW, b"rand")
    changed = text[:position] + letter + text[position + 1 :]
    assert live(changed) is (changed == text)


@given(text=st.text(max_size=80))
def test_any_text_is_judged_without_an_exception(text: str) -> None:
    assert not live(text)


def test_a_challenge_has_one_spelling() -> None:
    """What is burned is an id, so capitals or spaces must not make a second live challenge of a used one."""
    text = new_challenge(SECRET, PUBKEY, NOW, b"\xab\xcd\xef\xab")
    assert text.upper() != text
    for other in (text.upper(), text + " ", text[:-1], text + "\n", "x" * 10_000_000):
        assert not live(other)


@pytest.mark.threat(35)
def test_a_million_challenges_take_no_memory() -> None:
    """Stateless: each is checked from its own bytes; a thousand keys, and one key a thousand times."""
    texts = {new_challenge(SECRET, number.to_bytes(32, "big"), NOW, b"rand") for number in range(1_000)}
    texts |= {new_challenge(SECRET, PUBKEY, NOW, number.to_bytes(4, "big")) for number in range(1_000)}
    assert len(texts) == 2_000


def test_the_text_is_signed_not_the_bytes_it_spells() -> None:
    """Interface: sign the 64-character hex challenge as UTF-8 text (not hex-decoded)."""
    text = new_challenge(SECRET, PUBKEY, NOW, b"rand")
    assert verify_challenge_signature(PUBKEY, text, wallet().sign_text(text))
    assert not verify_challenge_signature(PUBKEY, text, wallet(2).sign_text(text))
    decoded = wallet().sign_text(bytes.fromhex(text).decode("latin-1"))
    assert not verify_challenge_signature(PUBKEY, text, decoded)
    for bad in ("", "1" * 64, "1" * 65, "not base58 at all", "z" * 10_000_000):
        assert not verify_challenge_signature(PUBKEY, text, bad)
