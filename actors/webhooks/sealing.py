"""Encrypts the secrets of webhooks for the database. They must be read again to sign, so a hash would not do.

Implements: decisions, "webhook secret" (shown once, kept encrypted): AES-256-GCM with a key that HKDF derives from the
cluster's secret; a sealed secret is bound to its webhook. A person with only the database cannot sign. Pure: the nonce
is an argument.
"""

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

NONCE_BYTES = 12


class CannotUnseal(Exception):
    """The sealed secret was made with another cluster secret, or for another webhook, or was changed."""


class SecretSeal:
    def __init__(self, cluster_secret: bytes) -> None:
        key = HKDF(hashes.SHA256(), 32, salt=None, info=b"ledger-gateway webhook secrets").derive(cluster_secret)
        self._cipher = AESGCM(key)

    def seal(self, secret: str, webhook_id: str, nonce: bytes) -> bytes:
        """Encrypt a secret. nonce: NONCE_BYTES at random, never used before."""
        assert len(nonce) == NONCE_BYTES, len(nonce)
        return nonce + self._cipher.encrypt(nonce, secret.encode(), webhook_id.encode())

    def unseal(self, sealed: bytes, webhook_id: str) -> str:
        """Decrypt a secret. Raises CannotUnseal."""
        try:
            return self._cipher.decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], webhook_id.encode()).decode()
        except (InvalidTag, ValueError) as error:
            raise CannotUnseal(f"the secret of webhook {webhook_id} cannot be read") from error
