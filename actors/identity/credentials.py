"""Finds the credential of a request and turns it into a Proof; makes, parses, hashes and abbreviates API keys and
session tokens.

Implements: interface, "Priority and failure", "API key" and "Session token"; decisions, "API key for new
accounts".
Pure: randomness is an argument. This module checks forms and wallet signatures. The account's owner knows whether a key
or a session is valid and whether a nonce is new. prove() is on the path of every call: one pass over the headers, no
regular expressions. Hashes are over the exact text, so another spelling of the same bytes is an unknown credential.
telemetry/logs.py removes keys and tokens from logs. Not here: the wallet's signature (wallet.py).
"""

import hashlib
from base64 import urlsafe_b64encode
from binascii import Error as NotEncoded
from binascii import a2b_base64, unhexlify
from collections.abc import Iterable
from enum import Enum, unique
from urllib.parse import unquote_to_bytes

from actors.calls import KeyProof, Proof, SessionProof
from actors.config import IdentityConfig
from actors.errors import Err, Refusal
from actors.identity.wallet import WalletHeaders, verify_wallet
from actors.units import ROUTING_BYTES, routing_bytes

Headers = Iterable[tuple[bytes, bytes]]

RANDOM_BYTES = 24  # 192 bits cannot be guessed, even with the routing bytes, which are public.
KEY_PREFIX = "srpc_live_"
TOKEN_CHARACTERS = 64  # Interface: session tokens and legacy keys are 64 hexadecimal characters.
CHILD_CHARACTERS_MAX = 4_096  # A chain of keys, each with its limits, fits; and a header with it passes every proxy.
_CHILD_BYTES_MIN = 100
_KEY_PREFIX_BYTES = KEY_PREFIX.encode()
_KEY_PREFIX_SIZE = len(KEY_PREFIX)
_KEY_CHARACTERS = _KEY_PREFIX_SIZE + 43  # 32 bytes are 43 characters of base64 without padding.
# The decoder knows the standard alphabet only. Characters of it that no key contains become "!", which it refuses.
_URLSAFE_TO_STANDARD = bytes.maketrans(b"-_+/=", b"+/!!!")
# The routing part (11 and 16 characters) is equal in all keys of an account; four more characters distinguish them.
_SHOWN_CHARACTERS = _KEY_PREFIX_SIZE + 11 + 4
_SHOWN_LEGACY_CHARACTERS = 16 + 4

_CREDENTIAL_HEADERS = frozenset(
    (b"x-api-key", b"x-pubkey", b"x-signature", b"x-timestamp", b"x-nonce", b"authorization")
)
_URL_KEY = b"api-key"
_URL_KEY_CHARACTERS_MAX = 3 * TOKEN_CHARACTERS  # Every character of the longest key escaped.


@unique
class Accept(Enum):
    """The kinds of credential that a path accepts. Other kinds are ignored, and refused when they come alone."""

    ANY = "any"
    WALLET = "wallet"  # POST /account/api-key: the holder of a key may not replace it.
    SESSION = "session"  # POST /auth/logout: revokes the token that it is sent with.


DUPLICATE_HEADER = Refusal(Err.AUTH_FAILED, "a credential header was sent twice")
_DUPLICATE_URL_KEY = Refusal(Err.AUTH_FAILED, "the api-key parameter was sent twice")
_BAD_KEY = Refusal(
    Err.AUTH_FAILED, f"an API key begins with {KEY_PREFIX}, or has 64 hexadecimal characters; copy it whole"
)
_BAD_SCHEME = Refusal(Err.AUTH_FAILED, "Authorization takes 'Bearer <session token>'")
_BAD_TOKEN = Refusal(Err.AUTH_FAILED, "the bearer token is not 64 hexadecimal characters")
_KEY_AS_TOKEN = Refusal(Err.AUTH_FAILED, "send an API key as X-Api-Key; Authorization takes a session token")
_NO_PUBKEY = Refusal(Err.AUTH_FAILED, "X-Signature came without X-Pubkey")
_ONLY_WALLET = Refusal(Err.AUTH_FAILED, "this path takes a wallet signature only (X-Pubkey and its headers)")
_ONLY_SESSION = Refusal(Err.AUTH_FAILED, "this path takes a session token only (Authorization: Bearer)")


def prove(
    headers: Headers,
    query_string: bytes,
    method: str,
    raw_path: bytes,
    body: bytes,
    now: int,
    config: IdentityConfig,
    accept: Accept = Accept.ANY,
) -> Proof | Refusal | None:
    """Return the proof of the request's credential: API key, else wallet signature, else bearer token. None: none.

    headers: as ASGI gives them, names in lower case. raw_path: undecoded, without the query. now: Unix seconds.
    Only the first kind that is present counts: if it is invalid, the request is AUTH_FAILED, whatever else it has.
    A credential header that comes twice is AUTH_FAILED, because two programs could read different ones.
    """
    sent: dict[bytes, bytes] = {}
    for name, value in headers:
        if name in _CREDENTIAL_HEADERS:
            if name in sent:
                return DUPLICATE_HEADER
            sent[name] = value
    if accept is Accept.ANY:
        key = sent.get(b"x-api-key")
        if key is not None:
            return parse_api_key_bytes(key) or _BAD_KEY
        if query_string:
            key_proof = _url_key_proof(query_string)
            if key_proof is not None:
                return key_proof
    if not sent:
        return _alone(accept) if accept is not Accept.ANY and url_keys(query_string) else None
    if accept is not Accept.SESSION and b"x-pubkey" in sent:
        return _wallet_proof(sent, method, raw_path, body, now, config)
    if accept is not Accept.WALLET and b"authorization" in sent:
        return _session_proof(sent[b"authorization"])
    if accept is not Accept.ANY:
        return _alone(accept)
    return _NO_PUBKEY if b"x-signature" in sent else None


def url_keys(query_string: bytes) -> list[bytes]:
    """Return the raw values of the api-key parameters. A percent-encoded name does not count."""
    if _URL_KEY not in query_string:
        return []
    pairs = (part.partition(b"=") for part in query_string.split(b"&"))
    return [value for name, _, value in pairs if name == _URL_KEY]


def uses_url_key(headers: Headers, query_string: bytes) -> bool:
    """Return whether the API key came in the URL, where logs and referrers may record it. The reply then warns."""
    if not query_string or not url_keys(query_string):
        return False
    return all(name != b"x-api-key" for name, _ in headers)


def _url_key_proof(query_string: bytes) -> Proof | Refusal | None:
    keys = url_keys(query_string)
    if not keys:
        return None
    if len(keys) > 1:
        return _DUPLICATE_URL_KEY
    key = keys[0]
    if len(key) > _URL_KEY_CHARACTERS_MAX:
        return _BAD_KEY
    return parse_api_key_bytes(unquote_to_bytes(key) if b"%" in key else key) or _BAD_KEY


def _wallet_proof(
    sent: dict[bytes, bytes], method: str, raw_path: bytes, body: bytes, now: int, config: IdentityConfig
) -> Proof | Refusal:
    wallet = WalletHeaders(
        pubkey=sent[b"x-pubkey"],
        signature=sent.get(b"x-signature"),
        timestamp=sent.get(b"x-timestamp"),
        nonce=sent.get(b"x-nonce"),
    )
    return verify_wallet(wallet, method, raw_path, body, now, config.timestamp_window_seconds)


def _session_proof(value: bytes) -> Proof | Refusal:
    scheme, _, token = value[:256].partition(b" ")
    if scheme.lower() != b"bearer":
        return _BAD_SCHEME
    token = token.strip(b" ")
    if token.startswith(_KEY_PREFIX_BYTES):
        return _KEY_AS_TOKEN
    return parse_session_token_bytes(token) or _BAD_TOKEN


def _alone(accept: Accept) -> Refusal:
    return _ONLY_WALLET if accept is Accept.WALLET else _ONLY_SESSION


# --- API keys and session tokens


def new_api_key(pubkey: bytes, randomness: bytes) -> str:
    """Make a key for the account of `pubkey` (32 bytes). randomness: 24 bytes from a secure source, used once."""
    assert len(randomness) == RANDOM_BYTES, len(randomness)
    return KEY_PREFIX + urlsafe_b64encode(routing_bytes(pubkey) + randomness).decode().rstrip("=")


def parse_api_key(text: str) -> KeyProof | None:
    """Parse a key of either format. None: the text has neither format."""
    return parse_api_key_bytes(text.encode()) if len(text) <= CHILD_CHARACTERS_MAX else None


def parse_api_key_bytes(raw: bytes) -> KeyProof | None:
    """Parse a key of either format from a header's bytes. None: it has neither format. On the path of every call."""
    size = len(raw)
    try:
        if size == _KEY_CHARACTERS and raw.startswith(_KEY_PREFIX_BYTES):
            decoded = a2b_base64(raw[_KEY_PREFIX_SIZE:].translate(_URLSAFE_TO_STANDARD) + b"=", strict_mode=True)
        elif size == TOKEN_CHARACTERS:
            decoded = unhexlify(raw)
        elif size <= CHILD_CHARACTERS_MAX and raw.startswith(_KEY_PREFIX_BYTES):
            return _parse_child(raw)
        else:
            return None
    except NotEncoded:
        return None
    return KeyProof(hashlib.sha256(raw).digest(), decoded[:ROUTING_BYTES])


def _parse_child(raw: bytes) -> KeyProof | None:
    """A key that was made from another one is longer. Raises NotEncoded.

    The decoder ignores the bits that the last character has too many. A text with other bits there is refused, since
    each child must have one spelling: its owner keeps the hash of the text that it sees first.
    """
    encoded = raw[_KEY_PREFIX_SIZE:]
    decoded = a2b_base64(encoded.translate(_URLSAFE_TO_STANDARD) + b"=" * (-len(encoded) % 4), strict_mode=True)
    if len(decoded) < _CHILD_BYTES_MIN or urlsafe_b64encode(decoded).rstrip(b"=") != encoded:
        return None
    return KeyProof(hashlib.sha256(raw).digest(), decoded[:ROUTING_BYTES], child=raw.decode())


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
