"""Guards tables of commands: in a pipe every value is whole, on one line."""

import pytest

from actors.launch.local_run import screen
from actors.launch.operator.tables import print_rows, print_table, utc_text

LONG = "5" * 88  # A signature.


@pytest.fixture(autouse=True)
def for_people(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(screen, "_is_for_programs", False)  # An earlier test may have given --json.


def test_nothing_is_cut_in_a_pipe(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule: grep finds a value together with its name, however long both are and whatever COLUMNS says."""
    monkeypatch.setenv("COLUMNS", "20")
    print_rows({"signature": LONG, "why": "a word " * 30, "none": None})
    print_table(["name", "signature"], [["n" * 60, LONG], ["note", "[red]as it is[/red]"]])
    lines = capsys.readouterr().out.splitlines()
    assert any("signature" in line and LONG in line for line in lines)
    assert any("why" in line and line.count("a word") == 30 for line in lines)
    assert any("n" * 60 in line and LONG in line for line in lines)
    assert any("[red]as it is[/red]" in line for line in lines)


def test_a_narrow_terminal_breaks_values_and_keeps_all_of_them(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rule: no character is replaced by an ellipsis."""
    for name, value in (("FORCE_COLOR", "1"), ("COLUMNS", "50"), ("TERM", "dumb")):
        monkeypatch.setenv(name, value)
    print_rows({"signature": LONG})
    text = capsys.readouterr().out
    assert text.count("5") == len(LONG) and "…" not in text and len(text.splitlines()) > 1


def test_a_time_for_people_is_in_utc() -> None:
    """Rule: people read dates, programs read Unix seconds."""
    assert utc_text(1_795_438_463) == "2026-11-23T12:54:23Z"
    assert utc_text(None) == ""
