"""`ledger-gateway backup verify`: says whether a restored copy of the database may go into service, and what is next.

Implements: money rule 6; deploy/backups/README.md. Both audits run against the copy, without a running product, over
connections that can change nothing: a server that stands still in its recovery, before it is opened, can be verified.
Not here: the audits (accounts/audit.py, deposits/audit.py), making and restoring a backup, which is PostgreSQL's work.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from actors.accounts import audit as ledger_audit
from actors.accounts.audit_database import (
    AgainstOption,
    DataDirOption,
    ExportedOption,
    KeyOption,
    database,
    reading,
    report_console,
)
from actors.accounts.audit_report import AuditFailed, exit_where_unreadable
from actors.accounts.checkpoint import open_checkpoints
from actors.accounts.months.files import ExportedMonth, open_months
from actors.deposits import audit as deposits_audit
from actors.launch.assembly.migrations import steps_of
from actors.launch.local_run.screen import print_document
from actors.storage.schema_plan import MigrationStep, SchemaMismatch
from actors.webhooks import audit as webhooks_audit

AFTER_RESTORE = "deploy/backups/after-restore.sql"
_APPLICATION = "ledger-gateway backup verify"
_NO_TABLES = "This database has no tables of the product: name the restored copy with --postgres-url."

# The newest entry says how far the books go; the newest replayed commit, how far a server in recovery has come.
_STATE = """
SELECT CASE WHEN pg_is_in_recovery() THEN pg_get_wal_replay_pause_state() END AS recovery,
       (SELECT max(last_ms) FROM accounts) AS newest_ms,
       (extract(epoch FROM pg_last_xact_replay_timestamp()) * 1000)::bigint AS replayed_ms
"""
_PAUSED = "paused"


@dataclass(frozen=True, slots=True)
class CopyState:
    """recovery: of a server in recovery, whether it replays or stands still, in PostgreSQL's words; None: it is open.

    newest_ms: time of the newest entry; None: there is none. replayed_ms: of the newest replayed commit; None: this
    server has replayed none since its start. Unix milliseconds. steps: what `migrate` would change.
    """

    recovery: str | None
    newest_ms: int | None
    replayed_ms: int | None
    steps: Sequence[MigrationStep]


@dataclass(frozen=True, slots=True)
class Verified:
    state: CopyState
    ledger: ledger_audit.LedgerReport
    deposits: deposits_audit.DepositsReport

    @property
    def differences(self) -> int:
        return self.ledger.faults_total + self.deposits.faults_total


@dataclass(frozen=True, slots=True)
class Wanted:
    """Options of both audits. against and key: files of a checkpoint; None: without one."""

    node_url: str
    start_slot: int
    against: Path | None
    key: Path | None
    exported: Sequence[ExportedMonth] = ()


def add_backup(cli: typer.Typer) -> None:
    backup = typer.Typer(help="Restored copies of the database.", no_args_is_help=True)

    @backup.command("verify")
    def verify_command(
        node_url: Annotated[
            str,
            typer.Option(
                "--node-url", envvar="LEDGER_UPSTREAM__NODE_URL", help="JSON-RPC URL of a node that has the history."
            ),
        ],
        postgres_url: Annotated[
            str | None,
            typer.Option(
                "--postgres-url",
                envvar="RESTORED_DATABASE_URL",
                help="The restored copy; DATABASE_URL, the database in service, is not read.",
            ),
        ] = None,
        data_dir: DataDirOption = None,
        start_slot: Annotated[int, typer.Option("--start-slot", min=0, help="As payments.deposit_start_slot.")] = 0,
        against: AgainstOption = None,
        key: KeyOption = None,
        exported: ExportedOption = None,
    ) -> None:
        """Run both audits on a restored copy; exit 1 on any difference, 2 if something cannot be read."""
        if (postgres_url is None) == (data_dir is None):
            raise typer.BadParameter("name one copy: its --postgres-url, or the --data-dir of a local run's copy")
        if data_dir is not None and not (data_dir / "postgres").is_dir():
            # The copy may still have the id of the folder that it was made from: that one's database would be started.
            raise typer.BadParameter(f"{data_dir} has no database in it: copy the folder `postgres` too")
        with exit_where_unreadable(Console(stderr=True, soft_wrap=True), _NO_TABLES):
            wanted = Wanted(node_url, start_slot, against, key, open_months(exported or []))
            verified = asyncio.run(_verify(postgres_url, data_dir or Path(), wanted))
        if not print_document(document(verified)):
            show(verified, report_console())
        raise typer.Exit(1 if verified.differences else 0)

    cli.add_typer(backup, name="backup")


async def _verify(postgres_url: str | None, data_dir: Path, wanted: Wanted) -> Verified:
    """Raises what the audits raise."""
    async with database(postgres_url, data_dir) as url:
        state = await _state(url)
        # A checkpoint is read once from its beginning to its end, so each audit opens it for itself.
        with open_checkpoints(wanted.against, None, wanted.key) as checkpoints:
            checkpoints.exported = wanted.exported
            ledger = await ledger_audit.run(url, Path(), checkpoints, [webhooks_audit.audit])
        with open_checkpoints(wanted.against, None, wanted.key) as checkpoints:
            deposits = await deposits_audit.run(url, Path(), wanted.node_url, wanted.start_slot, checkpoints.earlier)
    return Verified(state, ledger, deposits)


async def _state(url: str) -> CopyState:
    async with reading(url, Path(), _APPLICATION) as connection:
        row = await connection.fetchrow(_STATE)
        try:
            steps = await steps_of(connection)
        except SchemaMismatch as error:
            raise AuditFailed(f"The tables of the copy cannot be used: {error}") from error
    assert row is not None
    return CopyState(row["recovery"], row["newest_ms"] or None, row["replayed_ms"], steps)


def document(verified: Verified) -> dict[str, Any]:
    """Return the findings for programs. Times are Unix milliseconds."""
    state = verified.state
    return {
        "differences": verified.differences,
        "recovery": state.recovery,
        "newest_entry_ms": state.newest_ms,
        "newest_replayed_ms": state.replayed_ms,
        "migrations_due": [step.name for step in state.steps],
        "ledger": ledger_audit.document(verified.ledger),
        "deposits": deposits_audit.document(verified.deposits),
        "next": next_step(verified),
    }


def show(verified: Verified, console: Console) -> None:
    ledger_audit.show(verified.ledger, console)
    deposits_audit.show(verified.deposits, console)
    state = verified.state
    console.print(f"Newest entry of the copy: {_time(state.newest_ms)}.")
    if state.recovery is not None:
        console.print(f"The server is in recovery ({state.recovery}); newest commit: {_time(state.replayed_ms)}.")
    if verified.deposits.unread:
        console.print("Those transactions of the deposit account are credited once the copy is in service.")
    console.print(next_step(verified), markup=False)


def next_step(verified: Verified) -> str:
    """Return what to do with the copy, in words."""
    if verified.differences:
        return (
            "Next: do not open or use this copy. Keep it as it is, and verify an older backup, or another time. "
            + _checkpoint_is_younger(verified)
            + "A difference in every copy came before the oldest: then suspend the named accounts, and correct by new "
            "entries (`ledger-gateway adjust`)."
        )
    state = verified.state
    due = f"`ledger-gateway migrate` ({len(state.steps)} steps), " if state.steps else ""
    start = f"{due}`psql -f {AFTER_RESTORE}` once, then name the copy in DATABASE_URL and start the product"
    if state.recovery is None:
        return f"Both audits are exact. Next: {start}."
    if state.recovery != _PAUSED:
        return "Both audits are exact. Next: verify again when the server has come to its time and stands still."
    return (
        "Both audits are exact. Next: if this is the time you want, `SELECT pg_wal_replay_resume()` opens the copy; "
        f"then {start}. Else restore the base backup again with another recovery_target_time."
    )


def _checkpoint_is_younger(verified: Verified) -> str:
    at, newest_ms = verified.ledger.checkpoint_at, verified.state.newest_ms or 0
    if at is None or at * 1000 <= newest_ms:
        return ""
    return (
        f"The checkpoint of {_time(at * 1000)} is younger than the copy, so what came between is missing here and is "
        "named: compare with an older checkpoint. "
    )


def _time(milliseconds: int | None) -> str:
    return "none" if milliseconds is None else f"{datetime.fromtimestamp(milliseconds / 1000, UTC):%F %T} UTC"
