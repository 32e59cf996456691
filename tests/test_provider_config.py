"""URLs of nodes and block engines may be keys, so they are shown without them."""

import pytest
from pydantic import SecretStr, ValidationError

from actors.config import ConfigError, ServeConfig
from actors.config_loader import load
from actors.provider_config import BlockEngineConfig, browser_origin, is_url, shown_url


def test_urls_are_shown_without_their_keys() -> None:
    """User, password, path and query may each be a provider's key."""
    assert shown_url("https://u:secret@a.example:8443/key1?api-key=key2") == "https://a.example:8443/..."
    assert shown_url("http://127.0.0.1:8899/") == "http://127.0.0.1:8899"
    assert shown_url("http://[::1]:8899?x") == "http://[::1]:8899/..."
    assert shown_url("http://[::1") == "(not a URL)"


def test_what_is_no_url_is_refused_at_the_start() -> None:
    assert is_url("https://a:1/x", ("http", "https")) and not is_url("https://a b", ("https",))
    assert not is_url("ws://a", ("http", "https")) and not is_url("https://", ("https",))
    with pytest.raises(ValidationError):
        BlockEngineConfig(url=SecretStr("a"))


@pytest.mark.parametrize(
    ("written", "sent"),
    [
        ("https://rpc.example.com", "https://rpc.example.com"),
        ("https://RPC.example.com:443/", "https://rpc.example.com"),
        ("http://127.0.0.1:80", "http://127.0.0.1"),
        ("http://127.0.0.1:443", "http://127.0.0.1:443"),
        ("https://bücher.example:8443", "https://xn--bcher-kva.example:8443"),
        ("https://[::1]:8443", "https://[::1]:8443"),
    ],
)
def test_an_origin_has_the_spelling_that_browsers_send(written: str, sent: str) -> None:
    """Else the page of this service is of another origin than its settings, and no wallet signs in there."""
    assert browser_origin(written) == sent == ServeConfig(public_url=written).public_url


@pytest.mark.parametrize(
    "text", ["rpc.example.com", "https://a/path", "https://u@a", "https://a?x", "ws://a", "https://a b"]
)
def test_what_is_no_origin_is_refused_at_the_start(text: str) -> None:
    with pytest.raises(ValidationError, match="wanted an origin"):
        ServeConfig(public_url=text)


def test_a_block_engine_is_represented_without_its_keys() -> None:
    """Representations end up in tracebacks."""
    engine = BlockEngineConfig(url=SecretStr("https://a/?uuid=key1"), auth=SecretStr("key2"))
    assert "key1" not in repr(engine) and "key2" not in repr(engine)


@pytest.mark.threat(76)
@pytest.mark.parametrize("short", ["x", "geheim", "s" * 21])
def test_a_cluster_secret_that_can_be_guessed_starts_nothing(short: str) -> None:
    """Told with the way out, also for a cluster that runs with such a secret, and without the secret."""
    with pytest.raises(
        ConfigError, match=r"storage\.cluster_secret: it has \d+ characters, wanted at least 22"
    ) as refused:
        load({"LEDGER_STORAGE__CLUSTER_SECRET": short})
    told = str(refused.value)
    assert "openssl rand -hex 32" in told and "stop Ray on all machines" in told and "CLUSTER_SECRET" in told
    assert short == "x" or short not in told


def test_a_cluster_secret_of_128_bits_or_more_stays_good() -> None:
    """Rule: an upgrade refuses no cluster whose secret nobody can guess, in whatever alphabet it is written."""
    for secret in ("q83vASNFZ4mrze8BI0VniQ", "0" * 64):
        kept = load({"LEDGER_STORAGE__CLUSTER_SECRET": secret}).config.storage.cluster_secret
        assert kept is not None and kept.get_secret_value() == secret
