"""The certificate of the TLS port: given by the operator, or made by the node.

Implements: a given chain and key, checked before the server starts. Otherwise a new certificate authority, and a
server certificate that it signs for localhost and the node's host. The authority's key is never stored, so a client
that trusts the authority trusts only this server. The certificate is kept in the chain's folder and replaced for
another host, or a month before it expires. Clients get `ca.pem`.
Not here: ports (server.py).
"""

import datetime
import ipaddress
import os
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from actors.clock import Clock

FOLDER = "grpc-tls"
LIFE_DAYS = 3_650
RENEW_DAYS = 30
_EARLIER = datetime.timedelta(days=1)  # The start of validity lies in the past, because clocks differ.
_ALWAYS = ("localhost", "127.0.0.1", "::1")
_Key = ec.EllipticCurvePrivateKey


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
    folder = data_dir / FOLDER
    now = datetime.datetime.fromtimestamp(clock.now(), datetime.UTC)
    if not _is_usable(folder, host, now):
        _make(folder, host, now)
    return Identity((folder / "key.pem").read_bytes(), (folder / "cert.pem").read_bytes(), folder / "ca.pem")


def _is_usable(folder: Path, host: str, now: datetime.datetime) -> bool:
    if not all((folder / name).exists() for name in ("key.pem", "cert.pem", "ca.pem")):
        return False
    certificate = x509.load_pem_x509_certificate((folder / "cert.pem").read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return _names(host) == names and certificate.not_valid_after_utc - now > datetime.timedelta(days=RENEW_DAYS)


def _make(folder: Path, host: str, now: datetime.datetime) -> None:
    folder.mkdir(mode=0o700, exist_ok=True)
    ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    ca_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "devnode, authority of one certificate")])
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "devnode")])
    authority = (
        _started(ca_name, ca_name, ca_key, now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .sign(ca_key, hashes.SHA256())
    )
    certificate = (
        _started(name, ca_name, key, now)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(_names(host), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    ca_text = authority.public_bytes(Encoding.PEM)
    # cert.pem last: without it the folder is not usable, so after an interrupted start all files are made again.
    for file, text in (("key.pem", secret), ("ca.pem", ca_text)):
        _write(folder / file, text)
    _write(folder / "cert.pem", certificate.public_bytes(Encoding.PEM) + ca_text)


def _started(subject: x509.Name, issuer: x509.Name, key: _Key, now: datetime.datetime) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLIER)
        .not_valid_after(now + datetime.timedelta(days=LIFE_DAYS))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _usage(signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )


def _names(host: str) -> x509.SubjectAlternativeName:
    return x509.SubjectAlternativeName([_name(text) for text in dict.fromkeys((*_ALWAYS, host))])


def _name(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _write(path: Path, content: bytes) -> None:
    """Write a new file that only its owner can read at any time."""
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
