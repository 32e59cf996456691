"""The differences of an audit, and how its command ends."""

import io

import asyncpg
import pytest
import typer
from rich.console import Console

from actors.accounts.audit_report import FAULTS_SHOWN, AuditFailed, AuditReport, exit_where_unreadable
from actors.accounts.checkpoint import CheckpointError


def test_all_differences_count_and_the_first_are_shown() -> None:
    """A name is base58 of its bytes, or a word. The command ends with 1."""
    report, told = AuditReport(), io.StringIO()
    report.exit()
    report.add(bytes(32), *(f"fault {number}" for number in range(FAULTS_SHOWN + 5)))
    report.add("all", "one more")
    assert (len(report.faults), report.faults_total) == (FAULTS_SHOWN, FAULTS_SHOWN + 6)
    assert report.faults[0] == ("1" * 32, "fault 0")
    report.show_faults("account", "Next: look.", Console(file=told, width=100))
    assert "56 differences" in told.getvalue() and told.getvalue().endswith("Next: look.\n")
    with pytest.raises(typer.Exit) as ended:
        report.exit()
    assert ended.value.exit_code == 1


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (AuditFailed("no node"), "no node"),
        (CheckpointError("no key"), "no key"),
        (asyncpg.UndefinedTableError("x"), "no tables"),
        (OSError("password"), "The database cannot be read: OSError. Check"),
        (asyncpg.PostgresError("password"), "The database cannot be read: PostgresError. Check"),
    ],
)
def test_a_command_that_cannot_read_says_why_and_ends_with_2(error: Exception, says: str) -> None:
    """Texts of a database's errors may contain passwords, so they are not told."""
    told = io.StringIO()
    with pytest.raises(typer.Exit) as ended, exit_where_unreadable(Console(file=told), "no tables"):
        raise error
    assert ended.value.exit_code == 2 and told.getvalue().startswith(says) and "password" not in told.getvalue()


@pytest.mark.parametrize("name", ["[/red]", "[conceal]hidden[/conceal]", "[link=https://evil.example]x[/link]"])
def test_what_a_customer_has_named_is_text_in_a_report(name: str) -> None:
    """A name that is markup would end the report with an error, or hide the difference that it is in."""
    report, printed = AuditReport(), io.StringIO()
    report.add("account", f"key 1: name is {name!r}, by the facts 'bot'")
    report.show_faults(
        "account", "look at it", Console(file=printed, width=200, force_terminal=True, color_system=None)
    )
    assert f"name is {name!r}, by the facts 'bot'" in printed.getvalue()
