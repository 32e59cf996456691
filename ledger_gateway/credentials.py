"""Credentials of a caller: an API key, a wallet that signs each request, a session, or none.

Implements: README.md of the project, "Sign with the wallet itself" and "Open an account, get a key". No repr, log or
error contains a secret.
"""

import hashlib
import json
import os
import secrets
import time
from collections.abc import Callable
from pathlib import Path

import base58
from nacl.signing import SigningKey

_SEED_BYTES, _SECRET_BYTES = 32, 64


class BadCredential(ValueError):
    """A credential that cannot be one; the text names its place and never the secret."""


class Wallet:
    """An Ed25519 key pair. Each request is signed anew, with the time and a fresh nonce."""

    def __init__(self, secret: bytes) -> None:
        """secret: a seed of 32 bytes, or seed and public key, 64 bytes. Raises BadCredential."""
        if len(secret) not in (_SEED_BYTES, _SECRET_BYTES):
            raise BadCredential(f"a secret key has 32 or 64 bytes, this one has {len(secret)}")
        self._key = SigningKey(secret[:_SEED_BYTES])
        self.pubkey = base58.b58encode(self._key.verify_key.encode()).decode()
        if len(secret) == _SECRET_BYTES and secret[_SEED_BYTES:] != self._key.verify_key.encode():
            raise BadCredential("the two halves of the secret key do not belong together")

    def __repr__(self) -> str:
        return f"Wallet({self.pubkey})"

    @classmethod
    def generate(cls) -> "Wallet":
        return cls(secrets.token_bytes(_SEED_BYTES))

    @classmethod
    def from_text(cls, text: str) -> "Wallet":
        """Read the base58 text that wallets export. Raises BadCredential."""
        try:
            return cls(base58.b58decode(text.strip()))
        except BadCredential:
            raise
        except ValueError:
            raise BadCredential("the secret key is not base58") from None

    @classmethod
    def from_file(cls, path: str | Path) -> "Wallet":
        """Read a key pair as solana-keygen writes it: a JSON list of 64 numbers. Raises BadCredential."""
        where = Path(path).expanduser()
        try:
            numbers = json.loads(where.read_text(encoding="utf-8"))
            return cls(bytes(numbers) if isinstance(numbers, list) else b"")
        except OSError as error:
            raise BadCredential(f"{where}: {error.strerror or 'cannot be read'}") from None
        except (ValueError, TypeError, RecursionError) as error:
            reason = str(error) if isinstance(error, BadCredential) else "wanted a JSON list of 64 numbers"
            raise BadCredential(f"{where}: {reason}") from None

    def save(self, path: str | Path) -> None:
        """Write the key pair as solana-keygen does, readable by its owner only. Raises FileExistsError: a key that is
        overwritten is lost with all that it owns."""
        where = Path(path).expanduser()
        where.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        secret = self._key.encode() + self._key.verify_key.encode()
        with os.fdopen(os.open(where, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            json.dump(list(secret), file)

    @property
    def secret_bytes(self) -> bytes:
        """Return seed and public key, for libraries that sign transactions."""
        return self._key.encode() + self._key.verify_key.encode()

    def sign(self, message: bytes) -> str:
        """Return the Ed25519 signature of a message as base58 text."""
        return str(base58.b58encode(self._key.sign(message).signature), "ascii")

    def headers(self, method: str, path: str, body: bytes, now: float, nonce: str) -> dict[str, str]:
        """Return the four headers that sign one request. path: as sent, without its query. now: Unix seconds."""
        digest = hashlib.sha256(body).hexdigest() if method != "GET" else ""
        message = f"ledger-svc:v2:{method}:{path}:{int(now)}:{nonce}:{digest}"
        return {
            "X-Pubkey": self.pubkey,
            "X-Signature": self.sign(message.encode()),
            "X-Timestamp": str(int(now)),
            "X-Nonce": nonce,
        }


class ApiKey:
    """A key from POST /account/api-key."""

    def __init__(self, text: str) -> None:
        if not text.isascii() or not text.isprintable() or not text or " " in text:
            raise BadCredential("an API key is one word of printable characters")
        self.text = text

    def __repr__(self) -> str:
        return "ApiKey(hidden)"


class Session:
    """Signs in with a wallet once, then sends a token; signs in again when the token has ended."""

    def __init__(self, wallet: Wallet) -> None:
        self.wallet = wallet
        self.token: str | None = None

    def __repr__(self) -> str:
        return f"Session({self.wallet.pubkey})"


Credential = ApiKey | Wallet | Session | None


def credential_of(given: "str | ApiKey | Wallet | Session | None") -> Credential:
    """Return a credential; a text is an API key."""
    return ApiKey(given) if isinstance(given, str) else given


def headers_of(
    credential: Credential, method: str, path: str, body: bytes, now: Callable[[], float] = time.time
) -> dict[str, str]:
    """Return the headers of one attempt; of a session without a token none."""
    match credential:
        case ApiKey(text=text):
            return {"X-Api-Key": text}
        case Wallet():
            return credential.headers(method, path, body, now(), secrets.token_urlsafe(16))
        case Session(token=str(token)):
            return {"Authorization": f"Bearer {token}"}
        case _:
            return {}
