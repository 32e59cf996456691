"""Makes the text that a wallet signs to get a session in a page; the text names the site that asks.

Implements: decisions, "Wallet sign-in"; Sign-In With Solana, as the feature `solana:signIn` of the Wallet Standard
writes it. Pure.

The challenge for programs is 64 characters that name no site, so any page that shows them to a wallet could get a
session of that wallet. This text begins with the domain of this service, which wallets compare with the page that asks.
It has the same challenge as its nonce, so nothing is stored for it either, and it can be made again from the challenge
alone: the signed text must equal it, byte for byte.
"""

import re
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from actors.identity.challenge import CHALLENGE_CHARACTERS, issued_at

STATEMENT = "Sign in to the console of Ledger Gateway. This sends no transaction and costs nothing."
_NONCE = re.compile(rf"^Nonce: ([0-9a-f]{{{CHALLENGE_CHARACTERS}}})$", re.MULTILINE)


def sign_in_fields(origin: str, address: str, challenge: str, seconds: int) -> dict[str, Any]:
    """Return the input of `solana:signIn`. origin: scheme, host and port as clients see them. seconds: lifetime of the
    challenge."""
    issued = issued_at(challenge)
    return {
        "domain": urlsplit(origin).netloc,
        "address": address,
        "statement": STATEMENT,
        "uri": origin,
        "version": "1",
        "nonce": challenge,
        "issuedAt": _time(issued),
        "expirationTime": _time(issued + seconds),
    }


def sign_in_text(fields: dict[str, Any]) -> str:
    """Return the text that a wallet makes of the fields, and that a wallet without the feature signs as a message."""
    return "\n".join(
        (
            f"{fields['domain']} wants you to sign in with your Solana account:",
            fields["address"],
            "",
            fields["statement"],
            "",
            f"URI: {fields['uri']}",
            f"Version: {fields['version']}",
            f"Nonce: {fields['nonce']}",
            f"Issued At: {fields['issuedAt']}",
            f"Expiration Time: {fields['expirationTime']}",
        )
    )


def challenge_in(text: str) -> str | None:
    """Return the challenge of a signed text; None: the text is not of this service."""
    found = _NONCE.search(text)
    return None if found is None else found[1]


def _time(unix_seconds: int) -> str:
    return datetime.fromtimestamp(unix_seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
