"""The nouns of ownership."""

from actors.ownership.api import FENCED_SQLSTATE, Owned
from tests.tidy.sources import ROOT


def test_an_owned_slice_is_a_holder_and_an_epoch() -> None:
    """Who asks for holders may take it as a pair."""
    holder, epoch = Owned("racer-1", 7)
    assert (holder, epoch) == ("racer-1", 7)


def test_the_database_refuses_by_the_code_that_owners_look_for() -> None:
    """An owner that did not know the code would go on as if the database were away."""
    text = (ROOT / "actors/ownership/functions.sql").read_text(encoding="utf-8")
    assert f"USING ERRCODE = '{FENCED_SQLSTATE}'" in text
