"""The sponsor's key: parsed, encrypted, never shown."""

import json

import pytest
from solders.keypair import Keypair

from actors.deposits.x402 import sponsor_key as x402_sponsor_key
from actors.deposits.x402.sponsor_key import Sponsor, SponsorKeyError, key_text, parse_key, seal, unseal

SEED = bytes(range(32))
PAIR = Keypair.from_seed(SEED)
SALT, NONCE = bytes(16), bytes(24)


@pytest.mark.parametrize(
    "text",
    [
        str(PAIR),
        key_text(SEED),
        SEED.hex(),
        bytes(PAIR).hex(),
        f"  {key_text(SEED)}\n",
        json.dumps(list(bytes(PAIR))),
        json.dumps(list(SEED)),
    ],
)
def test_every_usual_form_of_a_key_is_read(text):
    """Wallets export base58 of 64 bytes, solana-keygen writes a list, others hex; 32 bytes are a seed."""
    assert parse_key(text) == SEED


@pytest.mark.parametrize(
    "text", ["", "0OIl", "abc", json.dumps(list(range(31))), "[1, 300]", "[1", "[-1]", "[1.5]", "[" * 100_000]
)
def test_what_is_no_key_is_refused_without_being_repeated(text):
    """The message may end up in a log."""
    with pytest.raises(SponsorKeyError) as caught:
        parse_key(text)
    assert not text or text not in str(caught.value)


def test_a_key_whose_halves_do_not_match_is_damaged():
    """A typing mistake must not become another address."""
    other = bytes(Keypair.from_seed(bytes(32)).pubkey())
    with pytest.raises(SponsorKeyError, match="damaged"):
        parse_key((SEED + other).hex())


def test_a_sealed_key_opens_with_its_passphrase_only():
    """Encrypted at rest; the public half can be read without opening it."""
    sealed = seal(SEED, "correct horse", SALT, NONCE)
    assert unseal(sealed, "correct horse") == SEED
    assert json.loads(sealed)["pubkey"] == str(PAIR.pubkey())
    assert SEED.hex() not in sealed and key_text(SEED) not in sealed
    with pytest.raises(SponsorKeyError, match="passphrase"):
        unseal(sealed, "wrong horse")


@pytest.mark.parametrize("change", [{"format": "other"}, {"salt": "AAAA"}, {"sealed": "AAAA"}, {"pubkey": "x"}])
def test_a_damaged_file_is_told_as_such(change):
    """An operator reads one sentence, not a traceback."""
    content = json.loads(seal(SEED, "p", SALT, NONCE)) | change
    with pytest.raises(SponsorKeyError):
        unseal(json.dumps(content), "p")
    with pytest.raises(SponsorKeyError):
        unseal("not json", "p")


def test_signatures_are_deterministic():
    """One message has one signature and so one id on the chain, by which it is credited once."""
    sponsor = Sponsor(SEED)
    assert sponsor.sign(b"message") == sponsor.sign(b"message")
    assert sponsor.sign(b"message").verify(sponsor.pubkey, b"message")


def test_the_key_is_not_in_any_representation():
    """Reprs end up in logs and error reports."""
    sponsor = Sponsor(SEED)
    assert str(sponsor) == repr(sponsor) == f"Sponsor({PAIR.pubkey()})"
    assert x402_sponsor_key.SEED_BYTES == 32
