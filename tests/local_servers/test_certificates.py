"""Certificates that a server of this machine makes for itself; devnode's own tests check the chain of trust."""

import datetime
import stat
from pathlib import Path

from cryptography import x509

from actors.clock import ManualClock
from actors.local_servers.certificates import RENEW_DAYS, own_certificate

DAY_SECONDS = 86_400
LIFE_DAYS = 100


def leaf(chain: bytes) -> x509.Certificate:
    return x509.load_pem_x509_certificates(chain)[0]


def test_the_certificate_names_the_server_and_ends_in_time(tmp_path: Path) -> None:
    """Names of the settings beside the local ones, each once; the life that the caller asks for."""
    clock = ManualClock()
    made = own_certificate(tmp_path / "tls", ("localhost", "10.1.2.3", "pay.example"), "Shop", LIFE_DAYS, clock.now())
    certificate = leaf(made.chain)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(name.value) for name in names] == ["localhost", "127.0.0.1", "::1", "10.1.2.3", "pay.example"]
    end = datetime.datetime.fromtimestamp(clock.now() + LIFE_DAYS * DAY_SECONDS, datetime.UTC)
    assert certificate.not_valid_after_utc == end
    assert certificate.subject.rfc4514_string() == "CN=Shop"


def test_it_is_kept_until_names_change_or_its_end_is_near(tmp_path: Path) -> None:
    """Clients that trust ca.pem go on trusting the server; a month before the end a new one is made."""
    clock, folder = ManualClock(), tmp_path / "tls"
    first = own_certificate(folder, ("a.example",), "Shop", LIFE_DAYS, clock.now())
    clock.advance((LIFE_DAYS - RENEW_DAYS - 1) * DAY_SECONDS)
    assert own_certificate(folder, ("a.example",), "Shop", LIFE_DAYS, clock.now()) == first
    assert own_certificate(folder, ("b.example",), "Shop", LIFE_DAYS, clock.now()).chain != first.chain
    renewed = own_certificate(folder, ("b.example",), "Shop", LIFE_DAYS, clock.now())
    clock.advance((LIFE_DAYS - RENEW_DAYS + 1) * DAY_SECONDS)
    assert own_certificate(folder, ("b.example",), "Shop", LIFE_DAYS, clock.now()).key != renewed.key


def test_only_the_owner_may_read_the_folder(tmp_path: Path) -> None:
    """The private key is in it, and the authority's key in no file."""
    own_certificate(tmp_path / "tls", (), "Shop", LIFE_DAYS, ManualClock().now())
    assert stat.S_IMODE((tmp_path / "tls").stat().st_mode) == 0o700
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "tls").iterdir()}
    assert modes == dict.fromkeys(("ca.pem", "cert.pem", "key.pem"), 0o600)
