"""The certificate that a node makes itself."""

import datetime
import ipaddress
import stat
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.verification import PolicyBuilder, Store

from actors.clock import ManualClock
from devnode.geyser.certificates import FOLDER, LIFE_DAYS, BadCertificate, given_identity, own_identity

DAY_SECONDS = 86_400


def served_names(data_dir: Path) -> list[str]:
    certificate = x509.load_pem_x509_certificate((data_dir / FOLDER / "cert.pem").read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return [str(name.value) for name in names]


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "::1"])
def test_a_client_that_trusts_the_authority_accepts_the_server(tmp_path: Path, name: str) -> None:
    """The chain is valid by the rules of web servers, for every name of the node."""
    clock = ManualClock()
    identity = own_identity(tmp_path, "127.0.0.1", clock)
    subject: x509.GeneralName
    try:
        subject = x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        subject = x509.DNSName(name)
    leaf, *_ = x509.load_pem_x509_certificates(identity.chain)
    assert identity.ca_file is not None
    authority = x509.load_pem_x509_certificate(identity.ca_file.read_bytes())
    now = datetime.datetime.fromtimestamp(clock.now(), datetime.UTC)
    verifier = PolicyBuilder().store(Store([authority])).time(now).build_server_verifier(subject)
    assert verifier.verify(leaf, []) == [leaf, authority]


def test_the_certificate_is_kept(tmp_path: Path) -> None:
    """Clients that have the CA file can connect after a restart."""
    clock = ManualClock()
    first = own_identity(tmp_path, "127.0.0.1", clock)
    clock.advance(30 * DAY_SECONDS)
    assert own_identity(tmp_path, "127.0.0.1", clock) == first


@pytest.mark.parametrize("why", ["another host", "it expires", "a file is gone"])
def test_a_new_certificate_replaces_an_unusable_one(tmp_path: Path, why: str) -> None:
    """Reasons: a missing name, the last month before it expires, a missing file."""
    clock, host = ManualClock(), "127.0.0.1"
    first = own_identity(tmp_path, host, clock)
    if why == "another host":
        host = "node.example"
    elif why == "it expires":
        clock.advance((LIFE_DAYS - 29) * DAY_SECONDS)
    else:
        (tmp_path / FOLDER / "ca.pem").unlink()
    second = own_identity(tmp_path, host, clock)
    assert second.key != first.key and second.chain != first.chain
    assert host in served_names(tmp_path)


def test_only_the_owner_can_read_the_key(tmp_path: Path) -> None:
    """The authority's key is in no file."""
    own_identity(tmp_path, "127.0.0.1", ManualClock())
    folder = tmp_path / FOLDER
    assert stat.S_IMODE((folder / "key.pem").stat().st_mode) == 0o600
    assert sorted(path.name for path in folder.iterdir()) == ["ca.pem", "cert.pem", "key.pem"]


def test_a_given_certificate_is_checked_first(tmp_path: Path) -> None:
    """An unusable certificate is an error at start, which names the file and the reason."""
    clock = ManualClock()
    own_identity(tmp_path, "127.0.0.1", clock)
    (tmp_path / "other").mkdir()
    own_identity(tmp_path / "other", "127.0.0.1", clock)
    cert, key = (tmp_path / FOLDER / name for name in ("cert.pem", "key.pem"))
    assert given_identity(cert, key).chain == cert.read_bytes()
    for bad_cert, bad_key, text in (
        (cert, tmp_path / "other" / FOLDER / "key.pem", "not the key of the certificate"),
        (tmp_path / "none.pem", key, "No such file"),
        (key, key, "--grpc-tls-cert"),
        (cert, cert, "--grpc-tls-key"),
    ):
        with pytest.raises(BadCertificate, match=text):
            given_identity(bad_cert, bad_key)
