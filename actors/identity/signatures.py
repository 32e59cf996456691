"""Ed25519 signatures as this service accepts them.

Implements: interface specification, "Per-request wallet signature" and "Session token".
Pure. Strict, so that one message has one signature and nobody holds a key that signs everything: libsodium refuses
public keys and R of small order or in a second spelling, and S not below the group order; tests hold it to that.
"""

from nacl.bindings import crypto_sign_open
from nacl.exceptions import BadSignatureError
from solders.signature import Signature

SIGNATURE_BYTES = 64
_SIGNATURE_TEXT_MIN, _SIGNATURE_TEXT_MAX = 64, 88  # Shortest and longest base58 text of 64 bytes.


def parse_signature(text: str) -> bytes | None:
    """The 64 bytes behind a base58 signature, or None when the text is not exactly that.

    Longer text is refused before it is decoded: base58 takes time in the square of the length.
    """
    if not _SIGNATURE_TEXT_MIN <= len(text) <= _SIGNATURE_TEXT_MAX:
        return None
    try:
        return bytes(Signature.from_string(text))
    except ValueError:
        return None


def is_signed(pubkey: bytes, message: bytes, signature: bytes) -> bool:
    """Whether `signature` (64 bytes) over `message` is by the holder of `pubkey` (32 bytes)."""
    assert len(signature) == SIGNATURE_BYTES, len(signature)
    try:
        crypto_sign_open(signature + message, pubkey)
    except BadSignatureError:
        return False
    return True
