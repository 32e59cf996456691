"""Keys made offline by the client's code, checked by the gateway's, which shares nothing with it."""

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nacl.signing import SigningKey

from actors.accounts.child_keys import LEVELS_MAX, LIMITS_BYTES_MAX, ChildBlock, ChildLimits, read_child, root_public
from actors.accounts.named_keys import KeyLimits, write_limits
from actors.identity.credentials import CHILD_CHARACTERS_MAX, RANDOM_BYTES, new_api_key, parse_api_key
from actors.units import routing_bytes
from ledger_gateway import keys
from ledger_gateway.credentials import BadCredential
from ledger_gateway.keys import narrow
from tests.accounts.making import ALICE

KEY = new_api_key(ALICE, bytes(range(RANDOM_BYTES)))
PREFIX = "srpc_live_"


def blocks_of(text: str) -> list[tuple[ChildBlock, ChildLimits]] | None:
    """The blocks with their limits. None: it is refused somewhere."""
    child = read_child(text)
    if child is None or child.root != root_public(KEY) or not child.has_seed():
        return None
    blocks = [(block, limits) for block in child.blocks if (limits := block.proven_limits()) is not None]
    return blocks if len(blocks) == len(child.blocks) else None


def nested(levels: int) -> str:
    text = KEY
    for level in range(levels):
        text = narrow(text, f"level {level}", credits_total=100 - level)
    return text


def encoded(raw: bytes) -> str:
    return PREFIX + base64.urlsafe_b64encode(raw).decode().rstrip("=")


def decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text.removeprefix(PREFIX) + "==")


@pytest.mark.parametrize("levels", [1, 5, LEVELS_MAX])
def test_each_level_is_checked_by_the_one_before(levels: int) -> None:
    text = nested(levels)
    blocks = blocks_of(text)
    assert blocks is not None and [limits.name for _, limits in blocks] == [f"level {n}" for n in range(levels)]
    assert [limits.credits_total for _, limits in blocks] == [100 - n for n in range(levels)]
    assert [block.signed_by for block, _ in blocks] == [root_public(KEY), *(block.public for block, _ in blocks[:-1])]
    proof = parse_api_key(text)
    assert proof is not None and (proof.routing, proof.child) == (routing_bytes(ALICE), text)
    assert len(text) <= CHILD_CHARACTERS_MAX


def test_more_levels_than_may_be_are_refused() -> None:
    assert blocks_of(nested(LEVELS_MAX + 1)) is None


def test_a_child_has_one_spelling() -> None:
    """Its owner keeps the hash of the text that it sees first: another one would shut the true text out."""
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    checked = 0
    for child in (narrow(KEY, "x" * size) for size in (1, 2, 3)):
        others = [child[:-1] + last for last in alphabet if last != child[-1]]
        others = [text for text in others if decoded(text) == decoded(child)]
        checked += len(others)
        assert parse_api_key(child) is not None and not any(map(parse_api_key, others))
    assert checked


def test_a_child_names_the_same_blocks_as_those_made_from_it() -> None:
    """So spending of a grandchild counts for the very key that its maker uses."""
    child = narrow(KEY, "child")
    grandchild = narrow(child, "grandchild")
    one, two = blocks_of(child), blocks_of(grandchild)
    assert one is not None and two is not None and one[0] == two[0]
    twins = [blocks_of(narrow(KEY, "twin")) for _ in range(2)]
    assert twins[0] != twins[1]


@given(place=st.integers(0, 10_000), bit=st.integers(0, 7))
def test_no_bit_of_it_can_be_changed(place: int, bit: int) -> None:
    """But in the routing bytes, which the owner compares with the account's (test_child_adoption.py)."""
    raw = bytearray(decoded(nested(2)))
    place = 8 + place % (len(raw) - 8)
    raw[place] ^= 1 << bit
    assert blocks_of(encoded(bytes(raw))) is None


def test_what_was_signed_cannot_be_used_elsewhere() -> None:
    """Without the last seed, a holder of a key cannot widen it: cut a block off, put one in, change their order."""
    child = narrow(KEY, "narrow", credits_total=1)
    raw = decoded(narrow(child, "narrower", credits_total=0))
    head, seed = raw[:40], raw[-32:]
    first_size = 2 + int.from_bytes(raw[40:42], "big") + 96
    first, second = raw[40 : 40 + first_size], raw[40 + first_size : -32]
    for body in (first + seed, second + seed, second + first + seed, first + second + second + seed, first, seed, b""):
        assert blocks_of(encoded(head + body)) is None
    own_seed = bytes(SigningKey.generate())
    assert blocks_of(encoded(head + first + own_seed)) is None
    assert blocks_of(encoded(head + first + second + own_seed)) is None
    other = new_api_key(ALICE, bytes(RANDOM_BYTES))
    assert blocks_of(encoded(raw[:8] + root_public(other) + raw[40:])) is None


@pytest.mark.parametrize(
    "limits",
    [
        {"budget": 5},  # A limit that is not known here must not be none.
        {"credits_total": "5"},
        {"credits_total": -1},
        {"methods": ["everything"]},
        {"name": ""},
        {"credits_a_day": 1.5},
        {"origins": ["x" * LIMITS_BYTES_MAX]},
    ],
)
def test_limits_that_are_not_understood_are_refused(limits: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "_LIMITS_BYTES_MAX", 10**6)  # Another client may send what this one refuses to make.
    assert blocks_of(narrow(KEY, **{"name": "child", **limits})) is None  # type: ignore[arg-type]


@pytest.mark.parametrize("body", [b"", b"\0", b"[]", b"null", b'{"name":"a"', b"\xff" * 9, b'{"name":"a"}' * 400])
def test_a_signed_block_of_no_limits_is_refused(body: bytes) -> None:
    """Its signature holds: whoever has the key has signed it."""
    import hashlib

    parent = SigningKey(hashlib.sha256(b"ledger-gateway key root\0" + KEY.encode()).digest())
    child = SigningKey.generate()
    public = bytes(child.verify_key)
    signed = parent.sign(b"ledger-gateway key block\0" + bytes(parent.verify_key) + public + body).signature
    raw = routing_bytes(ALICE) + bytes(parent.verify_key) + len(body).to_bytes(2, "big") + body + public + signed
    assert blocks_of(encoded(raw + bytes(child))) is None


@given(raw=st.binary(min_size=0, max_size=400))
def test_any_bytes_are_refused_and_break_nothing(raw: bytes) -> None:
    assert blocks_of(encoded(raw)) is None
    parse_api_key(encoded(raw))


@pytest.mark.parametrize("text", [PREFIX + "é" * 200, PREFIX + "A" * 201])
def test_a_text_that_is_no_base64_is_refused(text: str) -> None:
    assert read_child(text) is None


@pytest.mark.parametrize("text", ["", "f" * 64, PREFIX, PREFIX + "x", KEY + "x", "ey" + KEY])
def test_only_a_named_key_can_be_narrowed(text: str) -> None:
    with pytest.raises(BadCredential):
        narrow(text)


def test_limits_are_kept_without_the_name() -> None:
    blocks = blocks_of(narrow(KEY, "child", credits_a_day=5, methods=["getSlot"]))
    assert blocks is not None
    assert json.loads(write_limits(blocks[0][1])) == {"credits_a_day": 5, "methods": ["getSlot"]}
    assert write_limits(KeyLimits()) == "{}"
