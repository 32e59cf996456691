"""Parses and verifies Ed25519 signatures.

Implements: interface, "Per-request wallet signature" and "Session token".
Pure. Strict: one message has one signature, and no key exists whose signature fits every message. libsodium refuses
public keys and R of small order or in a non-canonical encoding, and S not below the group order; tests check that.
"""

from nacl.bindings import crypto_sign_open
from nacl.exceptions import BadSignatureError
from solders.signature import Signature

SIGNATURE_BYTES = 64
_SIGNATURE_TEXT_MIN, _SIGNATURE_TEXT_MAX = 64, 88  # Shortest and longest base58 text of 64 bytes.


def parse_signature(text: str) -> bytes | None:
    """Decode a base58 signature to its 64 bytes. None: the text is no such signature.

    Longer text is refused before it is decoded, because the time of base58 grows with the square of the length.
    """
    if not _SIGNATURE_TEXT_MIN <= len(text) <= _SIGNATURE_TEXT_MAX:
        return None
    try:
        return bytes(Signature.from_string(text))
    except ValueError:
        return None


def is_signed(pubkey: bytes, message: bytes, signature: bytes) -> bool:
    """Return whether `signature` (64 bytes) over `message` is valid for `pubkey` (32 bytes)."""
    assert len(signature) == SIGNATURE_BYTES, len(signature)
    try:
        crypto_sign_open(signature + message, pubkey)
    except BadSignatureError:
        return False
    return True
