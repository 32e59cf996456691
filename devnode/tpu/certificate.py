"""Certificates of the TPU: the node's own, and the identity in a peer's.

Implements: a self-signed Ed25519 certificate whose key is the node's identity; the identity of a peer, which is the
Ed25519 key of its single certificate. As on a validator, names, dates and the signature of the certificate are not
checked: the handshake has proved that the peer has the key.
Not here: limits of a peer (admission.py).
"""

import datetime
from collections.abc import Sequence

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.x509.oid import NameOID
from solders.keypair import Keypair
from solders.pubkey import Pubkey

# A validator's certificate never expires; these are Agave's dates.
_NOT_BEFORE = datetime.datetime(1975, 1, 1, tzinfo=datetime.UTC)
_NOT_AFTER = datetime.datetime(4096, 1, 1, tzinfo=datetime.UTC)
_NAME = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Solana node")])
_SERIAL_NUMBER = 1


def node_certificate(identity: Keypair) -> tuple[x509.Certificate, Ed25519PrivateKey]:
    key = Ed25519PrivateKey.from_private_bytes(bytes(identity.secret()))
    certificate = (
        x509.CertificateBuilder()
        .subject_name(_NAME)
        .issuer_name(_NAME)
        .public_key(key.public_key())
        .serial_number(_SERIAL_NUMBER)
        .not_valid_before(_NOT_BEFORE)
        .not_valid_after(_NOT_AFTER)
        .sign(key, None)
    )
    return certificate, key


def peer_identity(certificate: x509.Certificate | None, rest: Sequence[x509.Certificate]) -> Pubkey | None:
    """The identity of a peer; None for a peer without one, which counts by its address."""
    if certificate is None or rest:
        return None
    key = certificate.public_key()
    return Pubkey.from_bytes(key.public_bytes_raw()) if isinstance(key, Ed25519PublicKey) else None
