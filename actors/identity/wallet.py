"""Verifies the per-request wallet signature.

Implements: interface, "Per-request wallet signature".
Pure. The account's owner takes the nonce after this check, so an invalid signature uses up no nonce.
"""

import hashlib
import string
from dataclasses import dataclass

from actors.calls import WalletProof
from actors.errors import Err, Refusal
from actors.identity.signatures import is_signed, parse_signature
from actors.units import parse_pubkey

SIGNING_TAG = b"ledger-svc:v2"
NONCE_CHARACTERS_MAX = 128
_TIMESTAMP_DIGITS_MAX = 12  # Year 33,658; longer numbers are not parsed.
_NONCE_ALPHABET = (string.ascii_letters + string.digits + "-_:.,").encode()
_PATH_ALPHABET = (string.ascii_letters + string.digits + "-_.~/").encode()


@dataclass(frozen=True, slots=True)
class WalletHeaders:
    """The raw header values; None: not sent."""

    pubkey: bytes
    signature: bytes | None
    timestamp: bytes | None
    nonce: bytes | None


def _failed(detail: str) -> Refusal:
    return Refusal(Err.AUTH_FAILED, detail)


_BAD_PUBKEY = _failed("X-Pubkey is not the base58 text of a 32-byte public key")
_BAD_SIGNATURE_TEXT = _failed("X-Signature is not the base58 text of a 64-byte signature")
_BAD_TIMESTAMP = _failed("X-Timestamp is not Unix seconds in plain digits")
_BAD_NONCE = _failed("X-Nonce is not 1 to 128 letters, digits or -_:.,")
_BAD_PATH = _failed("the path can be written in several ways; send and sign it without escapes, empty or dot segments")
_BAD_SIGNATURE = _failed("the signature does not match this method, path, timestamp, nonce and body")


def signing_message(method: str, raw_path: bytes, timestamp: bytes, nonce: bytes, body: bytes) -> bytes:
    """Build the message that the wallet signs. body: raw bytes as received; not part of the message of a GET."""
    body_hash = b"" if method == "GET" else hashlib.sha256(body).hexdigest().encode()
    return b":".join((SIGNING_TAG, method.encode(), raw_path, timestamp, nonce, body_hash))


def is_plain_path(raw_path: bytes) -> bool:
    """Return whether every proxy reads these bytes as the same path.

    It has no escapes, no empty or dot segments, and no colon: with a colon one signed message could mean two requests.
    """
    return (
        raw_path.startswith(b"/")
        and not raw_path.translate(None, _PATH_ALPHABET)
        and b"//" not in raw_path
        and b"/." not in raw_path
    )


def verify_wallet(
    headers: WalletHeaders, method: str, raw_path: bytes, body: bytes, now: int, window_seconds: int = 60
) -> WalletProof | Refusal:
    """Check the forms and the time first, which is cheap, and the signature last.

    raw_path: as the client sent it, undecoded, without the query. now: Unix seconds. A time that differs by exactly
    window_seconds is valid. Refuses with AUTH_FAILED only.
    """
    for value, name in (
        (headers.signature, "X-Signature"),
        (headers.timestamp, "X-Timestamp"),
        (headers.nonce, "X-Nonce"),
    ):
        if value is None:
            return _failed(f"{name} is missing beside X-Pubkey")
    assert headers.signature is not None and headers.timestamp is not None and headers.nonce is not None
    timestamp, nonce = headers.timestamp, headers.nonce
    # bytes.isdigit accepts ASCII digits only: no sign, no space, no digits of other scripts.
    if not (len(timestamp) <= _TIMESTAMP_DIGITS_MAX and timestamp.isdigit()):
        return _BAD_TIMESTAMP
    signed_at = int(timestamp)
    if abs(now - signed_at) > window_seconds:
        return _failed(f"X-Timestamp is more than {window_seconds} seconds from this server's time, {now}")
    if not 1 <= len(nonce) <= NONCE_CHARACTERS_MAX or nonce.translate(None, _NONCE_ALPHABET):
        return _BAD_NONCE
    if not is_plain_path(raw_path):
        return _BAD_PATH
    pubkey = parse_pubkey(headers.pubkey.decode("latin-1"))
    if pubkey is None:
        return _BAD_PUBKEY
    signature = parse_signature(headers.signature.decode("latin-1"))
    if signature is None:
        return _BAD_SIGNATURE_TEXT
    if not is_signed(pubkey, signing_message(method, raw_path, timestamp, nonce, body), signature):
        return _BAD_SIGNATURE
    return WalletProof(pubkey, nonce.decode("ascii"), signed_at)
