"""The release of this code: one number, in its order."""

import tomllib

import pytest

from actors.release import FIRST_RELEASE, RELEASE, is_older, newest
from tests.tidy.sources import ROOT


def test_the_package_and_the_code_say_the_same_release() -> None:
    """Databases and connections say the code's; people and registries read the package's."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert settings["project"]["version"] == RELEASE


@pytest.mark.parametrize(("older", "newer"), [("0.1.0", "0.2.0"), ("0.9.1", "0.10.0"), ("0.10.9", "1.0.0")])
def test_releases_are_ordered_by_their_numbers(older: str, newer: str) -> None:
    """As text, 0.10.0 would be before 0.9.1."""
    assert is_older(older, newer) and not is_older(newer, older) and not is_older(newer, newer)
    assert newest(older, newer, older) == newer


def test_the_first_release_is_the_oldest() -> None:
    assert not is_older(RELEASE, FIRST_RELEASE)
