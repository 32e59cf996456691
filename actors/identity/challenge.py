"""Makes and checks challenges for session tokens, without storing them.

Implements: interface, "Session challenge"; threat 35 (a flood of challenges).
Pure: time and randomness are arguments. A challenge contains an HMAC that proves its origin, so a million of them need
no memory. Only a used challenge is stored, like a nonce, by the owner of its public key.
"""

import hashlib
import hmac

from actors.identity.signatures import is_signed, parse_signature
from actors.units import ROUTING_BYTES, routing_bytes

RANDOM_BYTES = 4  # Distinguishes the challenges of one public key in one second.
CHALLENGE_CHARACTERS = 64
AHEAD_SECONDS_MAX = 60  # How far the clock of the replica that issued a challenge may be ahead.
_TIME_BYTES = 4
_SIGNED_BYTES = ROUTING_BYTES + _TIME_BYTES + RANDOM_BYTES
_TAG_BYTES = 16  # 128 bits, the usual truncation of HMAC-SHA256.
_PURPOSE = b"ledger-gateway session challenge v1:"  # Separates these tags from other uses of the secret.


def new_challenge(secret: bytes, pubkey: bytes, now: int, randomness: bytes) -> str:
    """Make a challenge, in hexadecimal:

    routing bytes, time of issue, randomness, and the tag over these and the key.
    """
    assert len(randomness) == RANDOM_BYTES, len(randomness)
    signed = routing_bytes(pubkey) + now.to_bytes(_TIME_BYTES, "big") + randomness
    return (signed + _tag(secret, pubkey, signed)).hex()


def check_challenge(secret: bytes, text: str, pubkey: bytes, now: int, seconds: int) -> bytes | None:
    """Check a challenge, and return the id that its owner stores when it is used. None: it is invalid or expired.

    seconds: lifetime of a challenge; at exactly that age it has expired.
    """
    if len(text) != CHALLENGE_CHARACTERS:
        return None
    try:
        raw = bytes.fromhex(text)
    except ValueError:
        return None
    signed, tag = raw[:_SIGNED_BYTES], raw[_SIGNED_BYTES:]
    # The wallet signed the text, so only one spelling is valid; fromhex also accepts capitals and spaces.
    if raw.hex() != text or not hmac.compare_digest(tag, _tag(secret, pubkey, signed)):
        return None
    return tag if -AHEAD_SECONDS_MAX <= now - issued_at(text) < seconds else None


def issued_at(text: str) -> int:
    """Return the time of issue, in Unix seconds, of a challenge that was checked."""
    return int(text[2 * ROUTING_BYTES : 2 * (ROUTING_BYTES + _TIME_BYTES)], 16)


def verify_challenge_signature(pubkey: bytes, challenge_text: str, signature_base58: str) -> bool:
    """Return whether pubkey signed the challenge as UTF-8 text, not as decoded bytes."""
    signature = parse_signature(signature_base58)
    return signature is not None and is_signed(pubkey, challenge_text.encode(), signature)


def _tag(secret: bytes, pubkey: bytes, signed: bytes) -> bytes:
    return hmac.new(secret, _PURPOSE + signed + pubkey, hashlib.sha256).digest()[:_TAG_BYTES]
