"""URLs of nodes and block engines may be keys, so they are shown without them."""

import pytest
from pydantic import SecretStr, ValidationError

from actors.provider_config import BlockEngineConfig, is_url, shown_url


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


def test_a_block_engine_is_represented_without_its_keys() -> None:
    """Representations end up in tracebacks."""
    engine = BlockEngineConfig(url=SecretStr("https://a/?uuid=key1"), auth=SecretStr("key2"))
    assert "key1" not in repr(engine) and "key2" not in repr(engine)
