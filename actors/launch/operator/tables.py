"""Prints tables of commands: whole lines in a file or a pipe, so that nothing is cut and grep finds it.

Implements: launch/README.md (commands). Not here: the text of a run, options, JSON (operator/screen.py).
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from actors.accounts.audit_database import report_console
from actors.launch.local_run.screen import print_document


def print_rows(rows: dict[str, Any]) -> None:
    """Print names and values in two columns."""
    if print_document(rows):
        return
    table = Table.grid(Column(no_wrap=True), Column(overflow="fold"), padding=(0, 2))
    for row in rows.items():
        table.add_row(*map(_cell, row))
    report_console().print(table)


def print_table(headings: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print lines under their headings; values are text as it is, without markup."""
    table = Table(*(Column(heading, overflow="fold") for heading in headings))
    for row in rows:
        table.add_row(*map(_cell, row))
    report_console().print(table)


def is_for_a_terminal() -> bool:
    """Return whether a person's terminal shows the output, which has an edge."""
    return Console().is_terminal


def utc_text(unix_seconds: int | None) -> str:
    """Write a time for people: ISO 8601 in UTC. None is an empty text."""
    return "" if unix_seconds is None else f"{datetime.fromtimestamp(unix_seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"


def _cell(value: Any) -> Text:
    return Text("" if value is None else str(value))
