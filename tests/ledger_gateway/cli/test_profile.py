"""Which URL and which key a command uses."""

import itertools
import stat
from pathlib import Path

import pytest

from ledger_gateway.cli.arguments import KEY_VARIABLE, KEYPAIR_VARIABLE, PROFILE_VARIABLE, URL_VARIABLE
from ledger_gateway.cli.profile import ProfileError, Saved, resolve
from ledger_gateway.credentials import ApiKey, Wallet

URL = "https://a.example"


def test_options_win_over_the_environment_and_that_over_the_profile(tmp_path: Path) -> None:
    """Every combination of the three places, for URL and key."""
    for option, variable, kept in itertools.product((False, True), repeat=3):
        path = tmp_path / f"{option}{variable}{kept}.json"
        environment = {PROFILE_VARIABLE: str(path)}
        if kept:
            Saved(path, "https://c.example", None, {"https://c.example": "kept"}).save()
        if variable:
            environment |= {URL_VARIABLE: "https://b.example", KEY_VARIABLE: "variable"}
        found = resolve(URL if option else None, "option" if option else None, None, environment)
        wanted = (URL, "option") if option else ("https://b.example", "variable") if variable else None
        assert (found.url, found.key) == (
            wanted or (("https://c.example", "kept") if kept else ("http://127.0.0.1:8080", None))
        )


def test_a_saved_key_goes_to_its_own_gateway_alone(tmp_path: Path) -> None:
    """A command with another URL must not hand that server the key."""
    path = tmp_path / "profile.json"
    Saved(path, URL, None, {URL: "kept"}).save()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert resolve("https://evil.example", None, None, {PROFILE_VARIABLE: str(path)}).credential() is None
    assert isinstance(resolve(f"{URL}/", None, None, {PROFILE_VARIABLE: str(path)}).credential(), ApiKey)


def test_a_key_pair_that_is_given_is_the_caller(tmp_path: Path) -> None:
    """--keypair is the user's word for "as this wallet", also where a key lies about."""
    Wallet.generate().save(tmp_path / "id.json")
    environment = {PROFILE_VARIABLE: str(tmp_path / "none"), KEY_VARIABLE: "k", KEYPAIR_VARIABLE: "elsewhere"}
    assert isinstance(resolve(URL, None, tmp_path / "id.json", environment).credential(), Wallet)
    assert isinstance(resolve(URL, None, None, environment).credential(), ApiKey)
    with pytest.raises(ProfileError, match="--keypair"):
        resolve(URL, "k", None, {PROFILE_VARIABLE: str(tmp_path / "none")}).wallet()


@pytest.mark.parametrize("text", ["{", "[]", '{"keys": 5}', "[" * 100_000])
def test_a_damaged_profile_is_named(text: str, tmp_path: Path) -> None:
    path = tmp_path / "profile.json"
    path.write_text(text)
    with pytest.raises(ProfileError, match=r"profile\.json"):
        resolve(None, None, None, {PROFILE_VARIABLE: str(path)})
