"""Sign-in on a 402: a wallet with an account answers the payment terms with a signature instead of money.

Implements: x402 extension `sign-in-with-x` for Solana (a Sign-In-With-Solana text); decisions, "Two ways to pay by
x402". Pure: time and randomness are arguments. A sign-in is a proof by the wallet's signature, and the account's owner
takes its nonce: each signed text is valid for one call.

A sign-in that is not valid is ignored, as the extension demands: the answer is the 402 again, and the client pays. The
text must name the configured origin, whatever the Host header says, so a text signed for another site is not valid.
"""

import base64
import binascii
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

import orjson

from actors.calls import WalletProof
from actors.config import PaymentsConfig
from actors.identity.signatures import is_signed, parse_signature
from actors.units import parse_pubkey
from actors.x402_types import network_of

EXTENSION, HEADER = "sign-in-with-x", b"sign-in-with-x"
NONCE_BYTES = 16
# As long as a signed request is valid (accounts/nonces.py): the account's owner refuses a longer text.
VALID_SECONDS = 120
_AHEAD_SECONDS = 5  # Allowance for differing clocks of replicas.
_HEADER_BYTES_MAX, _FIELD_CHARACTERS_MAX, _RESOURCES_MAX = 8_192, 2_048, 8
_STATEMENT = "Sign in to use the credits of this wallet."
_TEXTS = ("domain", "address", "uri", "version", "chainId", "type", "nonce", "issuedAt", "signature")
_OPTIONAL = ("statement", "expirationTime", "notBefore", "requestId")
_SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": {name: {"type": "string"} for name in (*_TEXTS, *_OPTIONAL)}
    | {"resources": {"type": "array", "items": {"type": "string"}}},
    "required": list(_TEXTS),
}


class SignIn:
    """origin: scheme, host and port as clients see them."""

    def __init__(self, payments: PaymentsConfig, origin: str) -> None:
        self._origin = origin.rstrip("/")
        self._domain = urlsplit(self._origin).netloc
        self._chain = network_of(payments).v2
        self._enabled = payments.sign_in_with_x

    def offer(self, url: str, now: int, randomness: bytes) -> dict[str, Any] | None:
        """Make the extension of one 402; None: sign-in is switched off. randomness: NONCE_BYTES, fresh for each 402."""
        if not self._enabled:
            return None
        assert len(randomness) == NONCE_BYTES, len(randomness)
        info = {
            "domain": self._domain,
            "uri": url,
            "statement": _STATEMENT,
            "version": "1",
            "nonce": randomness.hex(),
            "issuedAt": _text(now),
            "expirationTime": _text(now + VALID_SECONDS),
        }
        return {"info": info, "supportedChains": [{"chainId": self._chain, "type": "ed25519"}], "schema": _SCHEMA}

    def proof(self, sent: Iterable[tuple[bytes, bytes]], now: int) -> WalletProof | None:
        """Read the proof of a request's sign-in. None: it has none, or none that is valid now."""
        values = [value for name, value in sent if name == HEADER]
        if not self._enabled or len(values) != 1 or len(values[0]) > _HEADER_BYTES_MAX:
            return None
        signed = _read(values[0])
        if signed is None or not self._is_ours(signed):
            return None
        issued_at = _seconds(signed["issuedAt"])
        if issued_at is None or not -_AHEAD_SECONDS <= now - issued_at <= VALID_SECONDS:
            return None
        if not _is_within(signed, now):
            return None
        pubkey, signature = parse_pubkey(signed["address"]), parse_signature(signed["signature"])
        if pubkey is None or signature is None or not is_signed(pubkey, _message(signed).encode(), signature):
            return None
        # A proof is valid before and after its time, a text only after it was issued.
        return WalletProof(pubkey, f"siwx:{signed['nonce']}", issued_at + VALID_SECONDS // 2)

    def _is_ours(self, signed: dict[str, Any]) -> bool:
        nonce = signed["nonce"]
        uri = signed["uri"]
        return (
            signed["domain"] == self._domain
            and (uri == self._origin or uri.startswith(self._origin + "/"))
            and (signed["version"], signed["chainId"], signed["type"]) == ("1", self._chain, "ed25519")
            and len(nonce) == 2 * NONCE_BYTES
            and nonce.isascii()
            and nonce.isalnum()
        )


def _read(value: bytes) -> dict[str, Any] | None:
    """Decode the header; None: a field is not a one-line text, or the list of resources is too long."""
    try:
        signed = orjson.loads(base64.b64decode(value, validate=True))
    except (binascii.Error, ValueError):
        return None
    if not isinstance(signed, dict):
        return None
    resources = signed.get("resources")
    listed = resources if isinstance(resources, list) else []
    if (resources is not None and not isinstance(resources, list)) or len(listed) > _RESOURCES_MAX:
        return None
    optional = [signed[name] for name in _OPTIONAL if signed.get(name) is not None]
    return signed if all(_is_line(text) for text in [*map(signed.get, _TEXTS), *optional, *listed]) else None


def _is_line(text: Any) -> bool:
    return isinstance(text, str) and 0 < len(text) <= _FIELD_CHARACTERS_MAX and len(text.splitlines()) == 1


def _is_within(signed: dict[str, Any], now: int) -> bool:
    """Return whether the text's own time limits, if any, allow this moment."""
    until, since = signed.get("expirationTime"), signed.get("notBefore")
    ends, begins = _seconds(until) if until else now, _seconds(since) if since else now
    return ends is not None and begins is not None and begins <= now <= ends


def _message(signed: dict[str, Any]) -> str:
    """Build the signed text line by line, as the extension defines it."""
    lines = [f"{signed['domain']} wants you to sign in with your Solana account:", signed["address"], ""]
    if signed.get("statement"):
        lines += [signed["statement"], ""]
    lines += [
        f"URI: {signed['uri']}",
        f"Version: {signed['version']}",
        f"Chain ID: {signed['chainId'].partition(':')[2]}",
        f"Nonce: {signed['nonce']}",
        f"Issued At: {signed['issuedAt']}",
    ]
    for name, label in (
        ("expirationTime", "Expiration Time"),
        ("notBefore", "Not Before"),
        ("requestId", "Request ID"),
    ):
        if signed.get(name):
            lines.append(f"{label}: {signed[name]}")
    if signed.get("resources"):
        lines += ["Resources:", *(f"- {resource}" for resource in signed["resources"])]
    return "\n".join(lines)


@lru_cache(maxsize=8)  # Many requests ask for few different seconds.
def _text(now: int) -> str:
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")


def _seconds(text: str) -> int | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return None if moment.tzinfo is None else int(moment.timestamp())
