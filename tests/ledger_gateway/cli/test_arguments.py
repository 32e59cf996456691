"""A key on the command line does not stay there."""

from hypothesis import given
from hypothesis import strategies as st

from ledger_gateway.cli.arguments import without_key

WORDS = st.lists(st.sampled_from(["call", "getSlot", "--json", "--url", "x", "-"]), max_size=5)


@given(before=WORDS, after=WORDS, form=st.sampled_from(["--key {}", "--key={}"]))
def test_the_key_is_taken_out_and_nothing_else(before: list[str], after: list[str], form: str) -> None:
    """Everybody on a machine reads command lines; the rest of it is as it was."""
    assert without_key([*before, *form.format("SECRET").split(" "), *after]) == ([*before, *after], "SECRET")
    assert without_key([*before, *after]) == ([*before, *after], None)


def test_what_follows_two_dashes_is_the_callers() -> None:
    assert without_key(["call", "--", "--key", "x"]) == (["call", "--", "--key", "x"], None)
    assert without_key(["call", "--key"]) == (["call", "--key"], None)
