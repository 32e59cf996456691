"""API keys and session tokens: makes, parses, hashes and abbreviates them.

Implements: interface specification, "API key" and "Session token"; decisions, "API key for new accounts".
Pure: randomness is an argument. This module checks the form only; the account's owner knows which keys and tokens are
valid. Hashes are over the exact text, so another spelling of the same bytes is an unknown credential.
telemetry/logs.py removes both from logs.
"""

import hashlib
from base64 import urlsafe_b64encode
from binascii import Error as NotEncoded
from binascii import a2b_base64, unhexlify

from actors.calls import KeyProof, SessionProof
from actors.units import ROUTING_BYTES, routing_bytes

RANDOM_BYTES = 24  # 192 bits cannot be guessed, even with the routing bytes, which are public.
KEY_PREFIX = "srpc_live_"
TOKEN_CHARACTERS = 64  # Interface: session tokens and legacy keys are 64 hexadecimal characters.

_KEY_PREFIX_BYTES = KEY_PREFIX.encode()
_KEY_PREFIX_SIZE = len(KEY_PREFIX)
_KEY_CHARACTERS = _KEY_PREFIX_SIZE + 43  # 32 bytes are 43 characters of base64 without padding.
# The decoder knows the standard alphabet only. Characters of it that no key contains become "!", which it refuses.
_URLSAFE_TO_STANDARD = bytes.maketrans(b"-_+/=", b"+/!!!")
# The routing part (11 and 16 characters) is equal in all keys of an account; four more characters distinguish them.
_SHOWN_CHARACTERS = _KEY_PREFIX_SIZE + 11 + 4
_SHOWN_LEGACY_CHARACTERS = 16 + 4


def new_api_key(pubkey: bytes, randomness: bytes) -> str:
    """Make a key for the account of `pubkey` (32 bytes). randomness: 24 bytes from a secure source, used once."""
    assert len(randomness) == RANDOM_BYTES, len(randomness)
    return KEY_PREFIX + urlsafe_b64encode(routing_bytes(pubkey) + randomness).decode().rstrip("=")


def parse_api_key(text: str) -> KeyProof | None:
    """Parse a key of either format. None: the text has neither format."""
    return parse_api_key_bytes(text.encode()) if len(text) <= TOKEN_CHARACTERS else None


def parse_api_key_bytes(raw: bytes) -> KeyProof | None:
    """Parse a key of either format from a header's bytes. None: it has neither format. On the path of every call."""
    size = len(raw)
    try:
        if size == _KEY_CHARACTERS and raw.startswith(_KEY_PREFIX_BYTES):
            decoded = a2b_base64(raw[_KEY_PREFIX_SIZE:].translate(_URLSAFE_TO_STANDARD) + b"=", strict_mode=True)
        elif size == TOKEN_CHARACTERS:
            decoded = unhexlify(raw)
        else:
            return None
    except NotEncoded:
        return None
    return KeyProof(hashlib.sha256(raw).digest(), decoded[:ROUTING_BYTES])


def key_hash(text: str) -> bytes:
    """Return the SHA-256 of a key's text, which is stored. Keys are random, so no salt or slow hash is needed."""
    return hashlib.sha256(text.encode()).digest()


def key_prefix(text: str) -> str:
    """Return the first characters of a key, which distinguish it from other keys of the account and prove nothing."""
    return text[: _SHOWN_CHARACTERS if text.startswith(KEY_PREFIX) else _SHOWN_LEGACY_CHARACTERS]


def new_session_token(pubkey: bytes, randomness: bytes) -> str:
    """Make a session token for the account of `pubkey` (32 bytes). randomness: 24 secure bytes, used once."""
    assert len(randomness) == RANDOM_BYTES, len(randomness)
    return (routing_bytes(pubkey) + randomness).hex()


def parse_session_token_bytes(raw: bytes) -> SessionProof | None:
    """Parse a session token from a header's bytes. None: they are not 64 hexadecimal characters."""
    if len(raw) != TOKEN_CHARACTERS:
        return None
    try:
        decoded = unhexlify(raw)
    except NotEncoded:
        return None
    return SessionProof(hashlib.sha256(raw).digest(), decoded[:ROUTING_BYTES])


def token_hash(text: str) -> bytes:
    """Return the SHA-256 of a session token's text, which is stored."""
    return hashlib.sha256(text.encode()).digest()
