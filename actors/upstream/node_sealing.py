"""Encrypts the URLs of added nodes for the database: a provider's URL may contain its key.

Implements: upstream/README.md, "Nodes that change while the service runs". AES-256-GCM with a key that HKDF derives
from the cluster's secret; a sealed URL is bound to the node's id. A person with only the database can neither read a
URL nor replace it. Pure: the nonce is an argument.
"""

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

NONCE_BYTES = 12


class NodeUrls(msgspec.Struct):
    """URL, and URL of the WebSocket, of a node."""

    url: str
    ws_url: str | None = None


class NodeUrlSeal:
    def __init__(self, cluster_secret: bytes) -> None:
        key = HKDF(hashes.SHA256(), 32, salt=None, info=b"ledger-gateway node urls").derive(cluster_secret)
        self._cipher = AESGCM(key)

    def seal(self, urls: NodeUrls, node_id: str, nonce: bytes) -> bytes:
        """Encrypt the URLs. nonce: NONCE_BYTES at random, never used before."""
        assert len(nonce) == NONCE_BYTES, len(nonce)
        return nonce + self._cipher.encrypt(nonce, msgspec.json.encode(urls), node_id.encode())

    def unseal(self, sealed: bytes, node_id: str) -> NodeUrls | None:
        """Decrypt the URLs. None: sealed with another secret or for another node, or changed."""
        try:
            text = self._cipher.decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], node_id.encode())
            return msgspec.json.decode(text, type=NodeUrls)
        except (InvalidTag, ValueError, msgspec.MsgspecError):
            return None
