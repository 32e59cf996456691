"""Keys as text, and which shard and which owner has them."""

import hashlib

import base58
import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.units import (
    VIRTUAL_SHARDS,
    base58_text,
    json_integer,
    parse_pubkey,
    routing_bytes,
    usdc_text,
    virtual_shard,
)

KEY = bytes(range(32))
TEXT = base58.b58encode(KEY).decode()


@given(st.binary(min_size=32, max_size=32))
def test_every_key_has_one_text(raw: bytes) -> None:
    """The text that clients see leads back to the same bytes, leading zeros included."""
    assert parse_pubkey(base58_text(raw)) == raw


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1" * 31,
        "1" * 33,
        "1" * 1_000_000,
        base58.b58encode(bytes(range(31))).decode(),
        base58.b58encode(bytes(range(1, 34))).decode(),
        TEXT[:-1] + "0",
        TEXT[:-1] + "l",
        f" {TEXT}",
        f"{TEXT}\n",
        TEXT[:-1] + "é",
        TEXT[:-1] + "\ud800",
        TEXT.replace(TEXT[5], "٣", 1),
    ],
)
def test_what_is_not_a_key_is_refused(text: str) -> None:
    """Threat 5: other lengths, other alphabets, and a second text of the same key."""
    assert parse_pubkey(text) is None


@given(st.text(max_size=60))
def test_no_text_raises(text: str) -> None:
    """Whatever a client sends, the answer is a key or None."""
    raw = parse_pubkey(text)
    assert raw is None or base58.b58encode(raw).decode() == text


def test_routing_is_the_head_of_the_hash() -> None:
    """Fixed for good: keys and tokens that clients hold carry it."""
    assert routing_bytes(KEY) == hashlib.sha256(KEY).digest()[:8]
    assert virtual_shard(bytes(6) + b"\x04\x01") == 1
    assert virtual_shard(b"\xff" * 8) == VIRTUAL_SHARDS - 1


@given(st.binary(min_size=8, max_size=8))
def test_every_routing_has_a_shard(routing: bytes) -> None:
    """No account is without an owner."""
    assert 0 <= virtual_shard(routing) < VIRTUAL_SHARDS


@pytest.mark.parametrize(
    ("units", "text"),
    [(0, "0.00"), (1, "0.000001"), (10_000, "0.01"), (100_000, "0.10"), (1_000_000, "1.00"), (1_234_567, "1.234567")],
)
def test_usdc_is_written_in_one_form(units: int, text: str) -> None:
    """Interface: `minimum_deposit_usdc` is "0.01". A deposit reads the same in a document, a ledger and a command."""
    assert usdc_text(units) == text


@given(units=st.integers(0, 2**64))
def test_amounts_of_usdc_read_back_exactly(units: int) -> None:
    """Money rule 7: no base unit is lost on the way to a client, and no amount has two texts."""
    whole, _, part = usdc_text(units).partition(".")
    assert int(whole) * 10**6 + int(part.ljust(6, "0")) == units
    assert len(part) == 2 or (2 < len(part) <= 6 and not part.endswith("0"))


@pytest.mark.parametrize("wrong", [b"", bytes(7), bytes(9), bytes(31), bytes(33)])
def test_other_lengths_are_a_broken_invariant(wrong: bytes) -> None:
    """A cut key would find a wrong owner silently."""
    with pytest.raises(AssertionError):
        routing_bytes(wrong)
    with pytest.raises(AssertionError):
        virtual_shard(wrong)


@given(value=st.one_of(st.integers(), st.floats(), st.booleans(), st.text(max_size=3), st.none()))
def test_an_integer_of_json_is_what_its_schemas_call_one(value: object) -> None:
    """57.0 is an integer, true is not; infinities and texts are none."""
    is_integer = jsonschema.Draft202012Validator({"type": "integer"}).is_valid(value)
    assert (json_integer(value) is not None) is is_integer
    assert json_integer(value) in (value, None)


@given(st.binary(max_size=70) | st.binary(min_size=32, max_size=32) | st.binary(min_size=64, max_size=64))
def test_base58_is_the_same_of_keys_signatures_and_everything_else(raw: bytes) -> None:
    """Two libraries write it: the fast one knows two lengths only. Leading zeros are digits of their own."""
    for one in (raw, bytes(len(raw) // 2) + raw[len(raw) // 2 :]):
        assert base58_text(one) == base58.b58encode(one).decode()
