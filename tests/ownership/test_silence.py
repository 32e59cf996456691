"""An actor is away when it was silent twice in a row, and until it answers."""

from hypothesis import given
from hypothesis import strategies as st

from actors.ownership.silence import Silence


@given(st.lists(st.booleans(), max_size=12))
def test_one_is_away_after_two_silent_looks_in_a_row(answers: list[bool]) -> None:
    silence = Silence()
    for looks in range(1, len(answers) + 1):
        away = silence.heard({"one": answers[looks - 1], "other": True})
        latest = answers[:looks][-2:]
        assert away == ({"one"} if latest == [False, False] else set())
        assert silence.is_in_doubt(["one", "other"]) == (not latest[-1] and latest != [False, False])


def test_one_that_was_started_anew_begins_anew() -> None:
    silence = Silence()
    silence.heard({"one": False})
    silence.forgive(["one"])
    assert silence.heard({"one": False}) == set()
    assert silence.heard({"one": False}) == {"one"}
