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
from actors.identity.wallet_sign_in import challenge_in, sign_in_fields, sign_in_text
from actors.units import base58_text, parse_pubkey

BODY_BYTES_MAX = 4_096  # The largest valid body has about 250 bytes.

_NOT_LIVE = Refusal(
    Err.AUTH_FAILED, "the challenge was not issued to this public key by this service, or it has expired"
)
_NOT_SIGNED = Refusal(Err.AUTH_FAILED, "the signature is not by this public key over the challenge, as text")
_NOT_OURS = Refusal(
    Err.AUTH_FAILED,
    "the signed text is not the one that this service asked for: it names another site, account or time",
)
_ELSEWHERE = Refusal(
    Err.AUTH_FAILED, "the text was signed for the page of this service, and it was sent by a page of another origin"
)


@dataclass(frozen=True, slots=True)
class VerifyRequest:
    """challenge: the 64 characters, or the whole text of a wallet sign-in, as it was signed."""

    pubkey: bytes
    challenge: str
    signature: str

    @property
    def issued(self) -> str:
        """Return the challenge itself; empty if the text has none."""
        return (challenge_in(self.challenge) or "") if "\n" in self.challenge else self.challenge


@dataclass(frozen=True, slots=True)
class ChallengeRequest:
    """for_wallet: whether the text of a wallet sign-in is wanted too."""

    pubkey: bytes
    for_wallet: bool


def parse_challenge_request(body: bytes) -> ChallengeRequest | Refusal:
    fields = _fields(body, ("pubkey",), optional=("format",))
    if isinstance(fields, Refusal):
        return fields
    kind = fields.get("format", "challenge")
    if kind not in ("challenge", "sign-in"):
        return _invalid('format must be "challenge" or "sign-in"')
    pubkey = _pubkey(fields["pubkey"])
    return pubkey if isinstance(pubkey, Refusal) else ChallengeRequest(pubkey, kind == "sign-in")


def parse_verify_request(body: bytes) -> VerifyRequest | Refusal:
    fields = _fields(body, ("pubkey", "challenge", "signature"))
    if isinstance(fields, Refusal):
        return fields
    pubkey = _pubkey(fields["pubkey"])
    if isinstance(pubkey, Refusal):
        return pubkey
    return VerifyRequest(pubkey, fields["challenge"], fields["signature"])


def check_verify_request(
    request: VerifyRequest, secret: bytes, now: int, seconds: int, origin: str, sent_by: str | None = None
) -> bytes | Refusal:
    """Return the id of a valid and signed challenge, which the owner must still take. The cheap check comes first.

    origin: of this service. sent_by: the Origin header; None: no browser sent it, or one that says nothing.
    """
    challenge_id = check_challenge(secret, request.issued, request.pubkey, now, seconds)
    if challenge_id is None:
        return _NOT_LIVE
    if request.challenge != request.issued:
        asked_for = sign_in_fields(origin, base58_text(request.pubkey), request.issued, seconds)
        if request.challenge != sign_in_text(asked_for):
            return _NOT_OURS
        if sent_by is not None and sent_by.lower() != origin.lower():
            return _ELSEWHERE
    if not verify_challenge_signature(request.pubkey, request.challenge, request.signature):
        return _NOT_SIGNED
    return challenge_id


def parse_logout_request(body: bytes) -> Refusal | None:
    """Return None for a valid body: `{}`, or empty."""
    fields = _fields(body or b"{}", ())
    return fields if isinstance(fields, Refusal) else None


def challenge_reply(challenge: str, seconds: int) -> dict[str, Any]:
    return {"challenge": challenge, "expires_in": seconds}


def sign_in_reply(challenge: str, seconds: int, pubkey: bytes, origin: str) -> dict[str, Any]:
    """sign_in: the input of `solana:signIn`. message: the text that it makes, for wallets that sign messages alone."""
    fields = sign_in_fields(origin, base58_text(pubkey), challenge, seconds)
    return challenge_reply(challenge, seconds) | {"sign_in": fields, "message": sign_in_text(fields)}


def session_reply(token: str, seconds: int) -> dict[str, Any]:
    return {"token": token, "expires_in": seconds}


def logout_reply() -> dict[str, Any]:
    return {"status": "ok"}


def _fields(body: bytes, names: tuple[str, ...], optional: tuple[str, ...] = ()) -> dict[str, str] | Refusal:
    if len(body) > BODY_BYTES_MAX:
        return _invalid(f"the body is longer than {BODY_BYTES_MAX} bytes")
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        return _invalid("the body is not JSON")
    if not isinstance(value, dict):
        return _invalid("the body is not a JSON object")
    for name in (*names, *(name for name in optional if name in value)):
        if not isinstance(value.get(name), str):
            return _invalid(f"{name}: wanted a string" if name in value else f"{name} is missing")
    return {name: value[name] for name in (*names, *optional) if name in value}


def _pubkey(text: str) -> bytes | Refusal:
    pubkey = parse_pubkey(text)
    return pubkey or Refusal(Err.AUTH_FAILED, "pubkey is not the base58 text of a 32-byte public key")


def _invalid(detail: str) -> Refusal:
    return Refusal(Err.INVALID_REQUEST, detail)
