"""Ed25519 as this service accepts it: strictly. Threat 5."""

import base58
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.identity.signatures import is_signed, parse_signature

from .wallets import wallet

GROUP_ORDER = 2**252 + 27742317777372353535851937790883648493
# All points of small order in every encoding that some verifier accepts; the zero key among them.
SMALL_ORDER = [
    bytes.fromhex(text)
    for text in (
        "0000000000000000000000000000000000000000000000000000000000000000",
        "0000000000000000000000000000000000000000000000000000000000000080",
        "0100000000000000000000000000000000000000000000000000000000000000",
        "0100000000000000000000000000000000000000000000000000000000000080",
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
        "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
        "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
    )
]


@given(message=st.binary(max_size=300), number=st.integers(1, 1_000))
def test_a_signature_is_by_one_key_over_one_message(message: bytes, number: int) -> None:
    signer, other = wallet(number), wallet(number + 1)
    signature = signer.sign(message)
    assert is_signed(signer.pubkey, message, signature)
    assert not is_signed(other.pubkey, message, signature)
    assert not is_signed(signer.pubkey, message + b"x", signature)


@pytest.mark.threat(5)
def test_a_second_spelling_of_a_signature_is_refused() -> None:
    """Malleability: S plus the group order verifies in a lax verifier, and would be a second signature."""
    signer = wallet()
    signature = signer.sign(b"message")
    scalar = int.from_bytes(signature[32:], "little")
    for multiple in range(1, 15):
        if scalar + multiple * GROUP_ORDER < 2**256:
            other = signature[:32] + (scalar + multiple * GROUP_ORDER).to_bytes(32, "little")
            assert not is_signed(signer.pubkey, b"message", other)


@pytest.mark.parametrize("pubkey", SMALL_ORDER, ids=lambda raw: raw.hex()[:6] + raw.hex()[-2:])
@pytest.mark.threat(5)
def test_a_small_order_key_signs_nothing(pubkey: bytes) -> None:
    """For such a key, R of small order and S = 0 verify one message in eight in a lax verifier: 50 are tried."""
    for point in SMALL_ORDER:
        for number in range(50):
            assert not is_signed(pubkey, b"message %d" % number, point + bytes(32))


@pytest.mark.threat(5)
def test_small_order_r_is_refused_for_an_honest_key() -> None:
    for point in SMALL_ORDER:
        assert not is_signed(wallet().pubkey, b"message", point + bytes(32))


@given(raw=st.binary(min_size=64, max_size=64))
def test_signature_text_reads_back(raw: bytes) -> None:
    assert parse_signature(base58.b58encode(raw).decode()) == raw


@given(raw=st.binary(min_size=50, max_size=80).filter(lambda raw: len(raw) != 64))
@pytest.mark.threat(5)
def test_only_64_bytes_are_a_signature(raw: bytes) -> None:
    """63 and 65 bytes among them."""
    assert parse_signature(base58.b58encode(raw).decode()) is None


@pytest.mark.threat(5)
def test_other_alphabets_and_lengths_are_no_signature() -> None:
    good = base58.b58encode(wallet().sign(b"message")).decode()
    for letter in "0OIl+/ é":
        assert parse_signature(good[:-1] + letter) is None, letter
    for text in ("", good + "1", "1" + good, good[:-3], wallet().sign(b"message").hex(), "z" * 10_000_000):
        assert parse_signature(text) is None
