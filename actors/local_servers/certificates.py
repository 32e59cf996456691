"""Makes a certificate for a server of this machine, and keeps it.

Implements: a new certificate authority, and a server certificate that it signs for given names. The authority's key is
never stored, so a client that trusts the authority trusts only this server. The certificate is replaced for other
names, or a month before it expires. Clients get `ca.pem`.
Not here: who serves it (devnode's gRPC port, launch/front/tls_edge.py).
"""

import datetime
import ipaddress
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

RENEW_DAYS = 30
LOCAL_NAMES = ("localhost", "127.0.0.1", "::1")
_EARLIER = datetime.timedelta(days=1)  # The start of validity lies in the past, because clocks differ.
_Key = ec.EllipticCurvePrivateKey


@dataclass(frozen=True, slots=True)
class OwnCertificate:
    """The private key and certificate chain of the server as PEM, and the file that clients trust."""

    key: bytes
    chain: bytes
    ca_file: Path


def own_certificate(folder: Path, names: Sequence[str], title: str, life_days: int, now_unix: float) -> OwnCertificate:
    """Read the folder's certificate; make one if it is missing or not usable.

    names: host names and addresses, beside LOCAL_NAMES. title: the common name, which clients show to people.
    """
    now = datetime.datetime.fromtimestamp(now_unix, datetime.UTC)
    wanted = _names(names)
    if not _is_usable(folder, wanted, now):
        _make(folder, wanted, title, now, datetime.timedelta(days=life_days))
    return OwnCertificate((folder / "key.pem").read_bytes(), (folder / "cert.pem").read_bytes(), folder / "ca.pem")


def _is_usable(folder: Path, wanted: x509.SubjectAlternativeName, now: datetime.datetime) -> bool:
    if not all((folder / name).exists() for name in ("key.pem", "cert.pem", "ca.pem")):
        return False
    certificate = x509.load_pem_x509_certificate((folder / "cert.pem").read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return wanted == names and certificate.not_valid_after_utc - now > datetime.timedelta(days=RENEW_DAYS)


def _make(
    folder: Path, names: x509.SubjectAlternativeName, title: str, now: datetime.datetime, life: datetime.timedelta
) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    ca_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"{title}, authority of one certificate")])
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, title)])
    authority = (
        _started(ca_name, ca_name, ca_key, now, now + life)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .sign(ca_key, hashes.SHA256())
    )
    certificate = (
        _started(name, ca_name, key, now, now + life)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(names, critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    ca_text = authority.public_bytes(Encoding.PEM)
    # cert.pem last: without it the folder is not usable, so after an interrupted start all files are made again.
    for file, text in (("key.pem", secret), ("ca.pem", ca_text)):
        _write(folder / file, text)
    _write(folder / "cert.pem", certificate.public_bytes(Encoding.PEM) + ca_text)


def _started(
    subject: x509.Name, issuer: x509.Name, key: _Key, now: datetime.datetime, end: datetime.datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLIER)
        .not_valid_after(end)
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


def _names(names: Sequence[str]) -> x509.SubjectAlternativeName:
    return x509.SubjectAlternativeName([_name(text) for text in dict.fromkeys((*LOCAL_NAMES, *names))])


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
