"""The keys that sign statements: Ed25519, kept encrypted in the database, their public halves published for ever.

Implements: decisions, "Signed roots". Pure: randomness and time are arguments. The seed is sealed by AES-256-GCM
with a key that HKDF derives from the cluster's secret, bound to the key's name: whoever has the database alone can sign
nothing.
"""

from hashlib import sha256
from typing import NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from nacl.signing import SigningKey

SEED_BYTES, NONCE_BYTES = 32, 12
_ID_CHARACTERS = 16


class CannotOpen(Exception):
    """The key was sealed with another cluster secret, or its row was changed."""


class RootKey(NamedTuple):
    """id: the first characters of the hash of its public half. sealed: the seed, encrypted. retired_ms: since when it
    signs nothing more; None: it signs. Times are Unix milliseconds."""

    id: str
    public: bytes
    sealed: bytes
    made_ms: int
    retired_ms: int | None = None


class KeySeal:
    def __init__(self, cluster_secret: bytes) -> None:
        key = HKDF(hashes.SHA256(), 32, salt=None, info=b"ledger-gateway root keys").derive(cluster_secret)
        self._cipher = AESGCM(key)

    def make(self, seed: bytes, nonce: bytes, now_ms: int) -> RootKey:
        """seed, nonce: SEED_BYTES and NONCE_BYTES at random, never used before."""
        assert len(seed) == SEED_BYTES and len(nonce) == NONCE_BYTES
        public = bytes(SigningKey(seed).verify_key)
        name = sha256(public).hexdigest()[:_ID_CHARACTERS]
        return RootKey(name, public, nonce + self._cipher.encrypt(nonce, seed, name.encode()), now_ms)

    def open(self, key: RootKey) -> SigningKey:
        """Raises CannotOpen."""
        try:
            seed = self._cipher.decrypt(key.sealed[:NONCE_BYTES], key.sealed[NONCE_BYTES:], key.id.encode())
        except (InvalidTag, ValueError) as error:
            raise CannotOpen(f"the ledger key {key.id} cannot be opened with this cluster secret") from error
        opened = SigningKey(seed)
        if bytes(opened.verify_key) != key.public:
            raise CannotOpen(f"the ledger key {key.id} has another public half")
        return opened


def published(keys: list[RootKey]) -> dict[str, object]:
    """`/.well-known/ledger-keys.json`: all keys there ever were, the newest first."""
    return {
        "keys": [
            {
                "id": key.id,
                "algorithm": "Ed25519",
                "public_key": key.public.hex(),
                "made_at": key.made_ms // 1000,
                "retired_at": None if key.retired_ms is None else key.retired_ms // 1000,
            }
            for key in keys
        ]
    }
