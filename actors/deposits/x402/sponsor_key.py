"""The sponsor's key: parsing, encryption under a passphrase, and signing.

Implements: interface, "Payment settlement" ("the service co-signs"); decisions, "Two ways to pay by x402": encrypted at
rest, or from the environment. Pure: bytes in, bytes out; salt and nonce are arguments, and the wiring reads and writes
files.

A sealed key is a line of JSON: Argon2id stretches the passphrase, XSalsa20-Poly1305 (libsodium's secretbox) seals the
seed. The text of the key never appears in a message, a log or a repr.
"""

import base64
import binascii
import json

import base58
import nacl.exceptions
import nacl.pwhash.argon2id
import nacl.secret
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from solders.signature import Signature

SALT_BYTES = nacl.pwhash.argon2id.SALTBYTES
SEED_BYTES = 32
_KEY_BYTES = 64  # Seed, then public key, as wallets export it.
_ARGON2_PASSES, _ARGON2_BYTES = 3, 64 << 20  # libsodium's "interactive" memory and a pass more; about 0.1 s.


class SponsorKeyError(Exception):
    """One sentence about the fault of the key or its file. It never contains the key."""


class Sponsor:
    """Holds the key of one process. Its repr shows only the public key."""

    __slots__ = ("_keypair",)

    def __init__(self, seed: bytes) -> None:
        self._keypair = Keypair.from_seed(seed)

    @property
    def pubkey(self) -> Pubkey:
        return self._keypair.pubkey()

    def sign(self, message: bytes) -> Signature:
        """Sign deterministically: the same message gives the same signature, so a payment has one id on the chain."""
        return self._keypair.sign_message(message)

    def __repr__(self) -> str:
        return f"Sponsor({self.pubkey})"


def parse_key(text: str) -> bytes:
    """Parse a secret key to its seed: base58 or hex, of 32 or 64 bytes, or a JSON list of numbers as keygen writes."""
    text = text.strip()
    raw = _bytes_of(text)
    if len(raw) == _KEY_BYTES:
        seed, pubkey = raw[:SEED_BYTES], raw[SEED_BYTES:]
        if bytes(Keypair.from_seed(seed).pubkey()) != pubkey:
            raise SponsorKeyError("the sponsor's key is damaged: its public half does not belong to its secret half")
        return seed
    if len(raw) != SEED_BYTES:
        raise SponsorKeyError(f"the sponsor's key has {len(raw)} bytes, wanted 32 or 64")
    return raw


def key_text(seed: bytes) -> str:
    """Return the secret key as base58 text of 64 bytes, as wallets export it."""
    return str(base58.b58encode(bytes(Keypair.from_seed(seed))), "ascii")


def seal(seed: bytes, passphrase: str, salt: bytes, nonce: bytes) -> str:
    """Encrypt the seed. salt: SALT_BYTES random bytes, nonce: 24; both new for every call."""
    assert len(seed) == SEED_BYTES and len(salt) == SALT_BYTES, "a seed and a salt"
    sealed = nacl.secret.SecretBox(_stretched(passphrase, salt)).encrypt(seed, nonce)
    content = {
        "format": "argon2id-secretbox-1",
        "pubkey": str(Keypair.from_seed(seed).pubkey()),
        "salt": base64.b64encode(salt).decode(),
        "sealed": base64.b64encode(bytes(sealed)).decode(),
    }
    return json.dumps(content) + "\n"


def unseal(text: str, passphrase: str) -> bytes:
    """Decrypt the seed. Raises SponsorKeyError for a wrong passphrase or a damaged file."""
    try:
        content = json.loads(text)
        if content["format"] != "argon2id-secretbox-1":
            raise SponsorKeyError(f"the sponsor's key file has an unknown format: {content['format']!r}")
        salt, sealed = base64.b64decode(content["salt"]), base64.b64decode(content["sealed"])
        seed = nacl.secret.SecretBox(_stretched(passphrase, salt)).decrypt(sealed)
    except nacl.exceptions.CryptoError:
        raise SponsorKeyError(
            "the sponsor's key file does not open: the passphrase is wrong, or it is damaged"
        ) from None
    except (ValueError, KeyError, TypeError, RecursionError, nacl.exceptions.ValueError):
        raise SponsorKeyError("the sponsor's key file is damaged") from None
    if len(seed) != SEED_BYTES or str(Keypair.from_seed(seed).pubkey()) != content["pubkey"]:
        raise SponsorKeyError("the sponsor's key file is damaged")
    return bytes(seed)


def _bytes_of(text: str) -> bytes:
    try:
        if text.startswith("["):
            return bytes(json.loads(text))
        if len(text) in (2 * SEED_BYTES, 2 * _KEY_BYTES):
            try:
                return bytes.fromhex(text)
            except ValueError:
                pass
        return bytes(base58.b58decode(text))
    except (ValueError, TypeError, RecursionError, binascii.Error):
        raise SponsorKeyError("the sponsor's key is neither base58 nor hex nor a JSON list of bytes") from None


def _stretched(passphrase: str, salt: bytes) -> bytes:
    return nacl.pwhash.argon2id.kdf(
        nacl.secret.SecretBox.KEY_SIZE, passphrase.encode(), salt, opslimit=_ARGON2_PASSES, memlimit=_ARGON2_BYTES
    )
