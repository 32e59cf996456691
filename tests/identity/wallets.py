"""A wallet for the tests of this folder: signs the way a client does, written from the interface, not from the code."""

import hashlib
from dataclasses import dataclass

import base58
from nacl.signing import SigningKey

NOW = 1_700_000_000


@dataclass(frozen=True, slots=True)
class Wallet:
    key: SigningKey

    @property
    def pubkey(self) -> bytes:
        return bytes(self.key.verify_key)

    @property
    def pubkey_text(self) -> str:
        return base58.b58encode(self.pubkey).decode()

    def sign(self, message: bytes) -> bytes:
        return self.key.sign(message).signature

    def sign_text(self, text: str) -> str:
        return base58.b58encode(self.sign(text.encode())).decode()

    def headers(
        self,
        method: str = "POST",
        path: str = "/rpc",
        body: bytes = b"{}",
        timestamp: str = str(NOW),
        nonce: str = "n-1",
    ) -> dict[bytes, bytes]:
        """The four headers, names in lower case as ASGI gives them."""
        body_hash = "" if method == "GET" else hashlib.sha256(body).hexdigest()
        text = f"ledger-svc:v2:{method}:{path}:{timestamp}:{nonce}:{body_hash}"
        return {
            b"x-pubkey": self.pubkey_text.encode(),
            b"x-signature": self.sign_text(text).encode(),
            b"x-timestamp": timestamp.encode(),
            b"x-nonce": nonce.encode(),
        }


def wallet(number: int = 1) -> Wallet:
    return Wallet(SigningKey(number.to_bytes(32, "big")))
