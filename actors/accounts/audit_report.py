"""The differences that an audit finds, and the end of a command that audits.

Implements: money rule 6. Used by the audit of the ledger and by the audit of deposits. Not here: what is compared.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import asyncpg
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from actors.accounts.checkpoint import CheckpointError
from actors.accounts.months.files import ExportError
from actors.local_servers.child_processes import ChildFailed
from actors.local_servers.datadir import DataDirError
from actors.units import base58_text

FAULTS_SHOWN = 50
_EXIT_FAULTS, _EXIT_UNREADABLE = 1, 2


class AuditFailed(Exception):
    """The audit could not read something; the message is one sentence that says what."""


@dataclass(slots=True)
class AuditReport:
    faults: list[tuple[str, str]] = field(default_factory=list)  # Name and sentence of the first FAULTS_SHOWN faults.
    faults_total: int = 0

    def add(self, name: bytes | str, *faults: str) -> None:
        """Add differences. name: an account or a transaction as bytes, or a word."""
        self.faults_total += len(faults)
        text = name if isinstance(name, str) else base58_text(name)
        self.faults += [(text, fault) for fault in faults[: FAULTS_SHOWN - len(self.faults)]]

    def show_faults(self, named: str, next_step: str, console: Console) -> None:
        table = Table(named, "what differs", title=f"{self.faults_total} differences")
        for name, fault in self.faults:
            # Names and URLs come from customers: shown as text, never as markup.
            table.add_row(Text(name), Text(fault))
        console.print(table)
        console.print(next_step)

    def exit(self) -> None:
        """End the command with exit code 1 if there are differences."""
        if self.faults_total:
            raise typer.Exit(_EXIT_FAULTS)


@contextmanager
def exit_where_unreadable(console: Console, no_tables: str) -> Iterator[None]:
    """Report what cannot be read, and end the command with exit code 2. no_tables: the sentence for a database without
    tables."""
    try:
        yield
        return
    except (DataDirError, ChildFailed, AuditFailed, CheckpointError, ExportError) as error:
        told = str(error)
    except asyncpg.UndefinedTableError:
        told = no_tables
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, ValueError) as error:
        told = f"The database cannot be read: {type(error).__name__}. Check --postgres-url or --data-dir."
    console.print(told, markup=False)
    raise typer.Exit(_EXIT_UNREADABLE) from None
