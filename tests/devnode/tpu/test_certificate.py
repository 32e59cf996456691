from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from solders.keypair import Keypair

from devnode.tpu.certificate import node_certificate, peer_identity

from .conftest import nameless_certificate


def test_the_key_of_the_certificate_is_the_identity() -> None:
    """The certificate is self-signed and does not expire."""
    identity = Keypair()
    certificate, key = node_certificate(identity)
    public = certificate.public_key()
    assert isinstance(public, Ed25519PublicKey)
    assert public.public_bytes_raw() == bytes(identity.pubkey()) == key.public_key().public_bytes_raw()
    certificate.verify_directly_issued_by(certificate)
    assert certificate.not_valid_after_utc.year == 4096
    assert peer_identity(certificate, []) == identity.pubkey()


def test_only_a_single_ed25519_certificate_is_an_identity() -> None:
    mine, _ = node_certificate(Keypair())
    nameless, _ = nameless_certificate()
    assert peer_identity(nameless, []) is None
    assert peer_identity(mine, [nameless]) is None
    assert peer_identity(None, []) is None
