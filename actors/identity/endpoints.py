"""Bodies of /auth/challenge, /auth/verify and /auth/logout: parses the requests and builds the replies.

Implements: interface, "Session endpoints".
Pure. The field names of these paths appear only here. A text that is no public key is AUTH_FAILED, as the interface's
table of statuses says; a body of another shape is INVALID_REQUEST. Unknown fields are ignored.
"""

from dataclasses import dataclass
from typing import Any

import orjson

from actors.errors import Err, Refusal
from actors.identity.challenge import check_challenge, verify_challenge_signature
from actors.units import parse_pubkey

BODY_BYTES_MAX = 4_096  # The largest valid body has about 250 bytes.

_NOT_LIVE = Refusal(
    Err.AUTH_FAILED, "the challenge was not issued to this public key by this service, or it has expired"
)
_NOT_SIGNED = Refusal(
    Err.AUTH_FAILED, "the signature is not by this public key over the challenge's 64 characters as text"
)


@dataclass(frozen=True, slots=True)
class VerifyRequest:
    pubkey: bytes
    challenge: str
    signature: str


def parse_challenge_request(body: bytes) -> bytes | Refusal:
    """Return the 32 bytes of the public key in the request."""
    fields = _fields(body, ("pubkey",))
    if isinstance(fields, Refusal):
        return fields
    return _pubkey(fields["pubkey"])


def parse_verify_request(body: bytes) -> VerifyRequest | Refusal:
    fields = _fields(body, ("pubkey", "challenge", "signature"))
    if isinstance(fields, Refusal):
        return fields
    pubkey = _pubkey(fields["pubkey"])
    if isinstance(pubkey, Refusal):
        return pubkey
    return VerifyRequest(pubkey, fields["challenge"], fields["signature"])


def check_verify_request(request: VerifyRequest, secret: bytes, now: int, seconds: int) -> bytes | Refusal:
    """Return the id of a valid and signed challenge, which the owner must still take. The cheap check comes first."""
    challenge_id = check_challenge(secret, request.challenge, request.pubkey, now, seconds)
    if challenge_id is None:
        return _NOT_LIVE
    if not verify_challenge_signature(request.pubkey, request.challenge, request.signature):
        return _NOT_SIGNED
    return challenge_id


def parse_logout_request(body: bytes) -> Refusal | None:
    """Return None for a valid body: `{}`, or empty."""
    fields = _fields(body or b"{}", ())
    return fields if isinstance(fields, Refusal) else None


def challenge_reply(challenge: str, seconds: int) -> dict[str, Any]:
    return {"challenge": challenge, "expires_in": seconds}


def session_reply(token: str, seconds: int) -> dict[str, Any]:
    return {"token": token, "expires_in": seconds}


def logout_reply() -> dict[str, Any]:
    return {"status": "ok"}


def _fields(body: bytes, names: tuple[str, ...]) -> dict[str, str] | Refusal:
    if len(body) > BODY_BYTES_MAX:
        return _invalid(f"the body is longer than {BODY_BYTES_MAX} bytes")
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        return _invalid("the body is not JSON")
    if not isinstance(value, dict):
        return _invalid("the body is not a JSON object")
    for name in names:
        if not isinstance(value.get(name), str):
            return _invalid(f"{name}: wanted a string" if name in value else f"{name} is missing")
    return {name: value[name] for name in names}


def _pubkey(text: str) -> bytes | Refusal:
    pubkey = parse_pubkey(text)
    return pubkey or Refusal(Err.AUTH_FAILED, "pubkey is not the base58 text of a 32-byte public key")


def _invalid(detail: str) -> Refusal:
    return Refusal(Err.INVALID_REQUEST, detail)
