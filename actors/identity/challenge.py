"""Challenges for session tokens, which the service does not have to remember.

Implements: interface specification, "Session challenge"; hostile inputs, a flood of challenges.
Pure: time and randomness are arguments. A challenge carries its own proof of origin, so that a million of them take
no memory; only a used one is remembered, like a nonce, by the owner of its public key.
"""

import hashlib
import hmac

from actors.identity.signatures import is_signed, parse_signature
from actors.units import ROUTING_BYTES, routing_bytes

RANDOM_BYTES = 4  # Tells apart the challenges that one public key asks for in one second.
CHALLENGE_CHARACTERS = 64
AHEAD_SECONDS_MAX = 60  # How far the clock of the replica that issued a challenge may be ahead of this one's.
_TIME_BYTES = 4
_SIGNED_BYTES = ROUTING_BYTES + _TIME_BYTES + RANDOM_BYTES
_TAG_BYTES = 16  # 128 bits, the customary truncation of HMAC-SHA256.
_PURPOSE = b"ledger-gateway session challenge v1:"  # The cluster secret has other uses; tags of one fit no other.


def new_challenge(secret: bytes, pubkey: bytes, now: int, randomness: bytes) -> str:
    """64 hexadecimal characters: routing bytes, time of issue, randomness, and the tag over these and the key."""
    assert len(randomness) == RANDOM_BYTES, len(randomness)
    signed = routing_bytes(pubkey) + now.to_bytes(_TIME_BYTES, "big") + randomness
    return (signed + _tag(secret, pubkey, signed)).hex()


def check_challenge(secret: bytes, text: str, pubkey: bytes, now: int, seconds: int) -> bytes | None:
    """The id under which a live challenge of this service to this public key is burned; None: it is none.

    seconds: life of a challenge; at exactly that age it has expired.
    """
    if len(text) != CHALLENGE_CHARACTERS:
        return None
    try:
        raw = bytes.fromhex(text)
    except ValueError:
        return None
    signed, tag = raw[:_SIGNED_BYTES], raw[_SIGNED_BYTES:]
    # One spelling only: what was signed is the text, and fromhex would let capitals and spaces pass.
    if raw.hex() != text or not hmac.compare_digest(tag, _tag(secret, pubkey, signed)):
        return None
    return tag if -AHEAD_SECONDS_MAX <= now - issued_at(text) < seconds else None


def issued_at(text: str) -> int:
    """Unix seconds of a challenge that was checked."""
    return int(text[2 * ROUTING_BYTES : 2 * (ROUTING_BYTES + _TIME_BYTES)], 16)


def verify_challenge_signature(pubkey: bytes, challenge_text: str, signature_base58: str) -> bool:
    """Whether the holder of pubkey signed the challenge as UTF-8 text, not as the bytes that it spells."""
    signature = parse_signature(signature_base58)
    return signature is not None and is_signed(pubkey, challenge_text.encode(), signature)


def _tag(secret: bytes, pubkey: bytes, signed: bytes) -> bytes:
    return hmac.new(secret, _PURPOSE + signed + pubkey, hashlib.sha256).digest()[:_TAG_BYTES]
