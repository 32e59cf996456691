"""Which rows of the database are keys of this service, whatever else somebody has written there.

Rules: decisions, "Signed roots".
"""

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from nacl.signing import SigningKey

from actors.receipts.root_keys import (
    KeySeal,
    ProvenKey,
    ProvenKeys,
    RootKey,
    name_of,
    published,
    read_published,
)

AT = 1_700_000_000_000
SEAL = KeySeal(b"secret")
KEY = SEAL.make(b"s" * 32, b"n" * 12, AT)


def made(letter: bytes, at_ms: int, *before: RootKey, seal: KeySeal = SEAL) -> RootKey:
    return seal.make(letter * 32, letter * 12, at_ms, seal.proven(before).keys)


def made_before(letter: bytes, at_ms: int) -> RootKey:
    """A row as the release before made it: its box has the seed alone, and is bound to the name alone."""
    cipher = AESGCM(HKDF(hashes.SHA256(), 32, salt=None, info=b"ledger-gateway root keys").derive(b"secret"))
    seed, nonce = letter * 32, letter * 12
    public = bytes(SigningKey(seed).verify_key)
    return RootKey(name_of(public), public, nonce + cipher.encrypt(nonce, seed, name_of(public).encode()), at_ms)


def planted(at_ms: int, retired_ms: int | None = None) -> RootKey:
    """A row by somebody who has the database alone."""
    public = bytes(SigningKey(b"x" * 32).verify_key)
    return RootKey(name_of(public), public, b"x" * 60, at_ms, retired_ms)


def spans(proven: ProvenKeys) -> list[tuple[str, int, int | None]]:
    return [(key.id, key.made_ms - AT, key.retired_ms and key.retired_ms - AT) for key in proven.keys]


def test_a_key_opens_with_the_secret_that_sealed_it() -> None:
    proven = SEAL.proven([KEY])
    assert proven.signing is not None and proven.keys == [ProvenKey(KEY.id, KEY.public, AT)]
    proven.signing.verify_key.verify(proven.signing.sign(b"text"))
    assert bytes(proven.signing.verify_key) == KEY.public and b"s" * 8 not in KEY.sealed


@pytest.mark.parametrize(
    "changed",
    [
        KEY._replace(id="0" * 16),
        KEY._replace(public=b"p" * 32),
        KEY._replace(sealed=KEY.sealed[:-1] + b"\0"),
        KEY._replace(sealed=b""),
        KEY._replace(made_ms=AT - 1),
    ],
)
def test_a_changed_row_proves_nothing(changed: RootKey) -> None:
    assert SEAL.proven([changed]) == ProvenKeys([], None, [changed])
    assert KeySeal(b"another").proven([KEY]) == ProvenKeys([], None, [KEY])


def test_a_row_that_was_planted_is_no_key() -> None:
    """Whether it claims to sign, or to be old; and it changes nothing about the others."""
    second = made(b"t", AT + 10, KEY)
    for row in (planted(AT + 5, AT + 10), planted(AT + 20), planted(AT - 5, AT)):
        proven = SEAL.proven([second, row, KEY])
        assert proven.unproven == [row] and spans(proven) == [(second.id, 10, None), (KEY.id, 0, 10)]
        assert proven.signing is not None and bytes(proven.signing.verify_key) == second.public


def test_the_times_of_a_key_are_those_that_the_next_one_names() -> None:
    """Whatever its own row says by now: a key that leaked stays retired."""
    old = made_before(b"o", AT)
    second = made(b"t", AT + 10, old)
    third = made(b"u", AT + 30, old, second)
    wanted = [(third.id, 30, None), (second.id, 10, 30), (old.id, 0, 10)]
    for row in (old, old._replace(retired_ms=None), old._replace(made_ms=AT + 99), old._replace(retired_ms=AT + 9**9)):
        assert spans(SEAL.proven([third, row, second])) == wanted
    assert spans(SEAL.proven([third])) == wanted, "a row that was removed is still known"


def test_keys_of_the_release_before_are_proven_by_their_boxes() -> None:
    """And each ends where the next one began, as that release wrote it."""
    first, second = made_before(b"f", AT), made_before(b"g", AT + 10)
    proven = SEAL.proven([second, first._replace(retired_ms=AT + 10)])
    assert spans(proven) == [(second.id, 10, None), (first.id, 0, 10)] and proven.unproven == []
    assert proven.signing is not None and bytes(proven.signing.verify_key) == second.public


def test_a_key_of_another_secret_is_proven_once_a_new_one_vouches_for_it() -> None:
    other = made(b"a", AT, seal=KeySeal(b"another"))._replace(retired_ms=AT + 10)
    own = made(b"b", AT + 10)
    assert SEAL.proven([own, other]).unproven == [other]
    named = ProvenKey(other.id, other.public, other.made_ms, other.retired_ms)
    third = SEAL.make(b"c" * 32, b"c" * 12, AT + 20, [*SEAL.proven([own]).keys, named])
    proven = SEAL.proven([third, own, other])
    assert spans(proven) == [(third.id, 20, None), (own.id, 10, 20), (other.id, 0, 10)] and proven.unproven == []
    forged = planted(AT)._replace(id=other.id)
    assert SEAL.proven([third, own, forged]).unproven == [forged], "its name alone is no proof"


def test_all_keys_are_published_and_no_private_half() -> None:
    old = ProvenKey("old", KEY.public, AT, AT + 1_000)
    told = published([*SEAL.proven([KEY]).keys, old])
    assert told == {
        "keys": [
            {"id": KEY.id, "algorithm": "Ed25519", "public_key": KEY.public.hex(), "made_at": 1_700_000_000}
            | {"retired_at": None},
            {"id": "old", "algorithm": "Ed25519", "public_key": KEY.public.hex(), "made_at": 1_700_000_000}
            | {"retired_at": 1_700_000_001},
        ]
    }


def test_published_keys_are_read_as_they_were_written() -> None:
    keys = SEAL.proven([made(b"t", AT + 7_000, KEY), KEY]).keys
    assert read_published(published(keys)) == {key.id: key for key in keys}
    wrong = {"id": "0" * 16, "public_key": KEY.public.hex(), "made_at": 1, "retired_at": None}
    for document in ({}, [], None, {"keys": [{}]}, {"keys": [wrong]}, {"keys": [{**wrong, "public_key": "x"}]}):
        with pytest.raises(ValueError, match=r"form|half|hexadecimal"):
            read_published(document)
