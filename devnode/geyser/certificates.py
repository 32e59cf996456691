"""The certificate of the TLS port: given by the operator, or made by the node.

Implements: a given chain and key, checked before the server starts. Otherwise one made for localhost and the node's
host, and kept in the chain's folder.
Not here: ports (server.py), making certificates (local_servers/certificates.py).
"""

from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from actors.clock import Clock
from actors.local_servers.certificates import own_certificate

FOLDER = "grpc-tls"
LIFE_DAYS = 3_650


class BadCertificate(Exception):
    """The given certificate cannot be used; the text names the file and the reason."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The key and certificate chain of the server, and the file that clients trust (None for a given certificate)."""

    key: bytes
    chain: bytes
    ca_file: Path | None


def given_identity(cert_file: Path, key_file: Path) -> Identity:
    """Read a given certificate. Raises BadCertificate if a file cannot be read or the key does not match."""
    try:
        key, chain = key_file.read_bytes(), cert_file.read_bytes()
        public = load_pem_private_key(key, password=None).public_key()
        certificate = x509.load_pem_x509_certificate(chain)
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm) as error:  # TypeError: the key has a password.
        raise BadCertificate(f"--grpc-tls-cert {cert_file}, --grpc-tls-key {key_file}: {error}") from error
    if certificate.public_key() != public:
        raise BadCertificate(f"--grpc-tls-key {key_file}: not the key of the certificate in {cert_file}")
    return Identity(key, chain, None)


def own_identity(data_dir: Path, host: str, clock: Clock) -> Identity:
    """Read the folder's certificate; make one if it is missing or not usable."""
    own = own_certificate(data_dir / FOLDER, (host,), "devnode", LIFE_DAYS, clock.now())
    return Identity(own.key, own.chain, own.ca_file)
