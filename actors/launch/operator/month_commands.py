"""Operator commands on old months of the ledger: list, export, verify, detach, receipt.

Implements: launch/README.md, "Old months of the ledger"; decisions, "Detached months". Each command prints its result
and the next step. Not here: the work of the commands (accounts/months/).
"""

import asyncio
import os
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, TypeVar

import asyncpg
import typer
from rich.console import Console

from actors.accounts.audit_database import (
    DataDirOption,
    PostgresUrlOption,
    RootsKeysOption,
    SettingsDirOption,
    XdgOption,
    database,
    folder_of,
    report_console,
)
from actors.accounts.audit_report import exit_where_unreadable
from actors.accounts.listings import parse_cursor
from actors.accounts.months.detaching import FROM_RELEASE, Detached, detach
from actors.accounts.months.exporting import export
from actors.accounts.months.files import Month, month_from, month_of, open_month, open_months
from actors.accounts.months.receipts import ExportedReceipts
from actors.accounts.months.verifying import ExportReport, verify
from actors.accounts.signed_links import read_keys
from actors.calls import OPERATION_BYTES
from actors.clock import SystemClock
from actors.config import ConfigError
from actors.gateway.pages.receipts import receipt_body
from actors.launch.local_run.run import Options, settings
from actors.launch.local_run.screen import ConfigFileOption, fail, print_document, say
from actors.launch.operator.tables import print_table
from actors.storage.running_releases import application_name, require_none_before
from actors.storage.schema_plan import SchemaMismatch
from actors.units import parse_pubkey

_T = TypeVar("_T")
_NO_TABLES = "This database has no months that can leave the ledger: run `ledger-gateway migrate` first."
_NICE = 10  # Calls have priority on a machine that both use.
_TOLD_SECONDS = 5.0
# The server's own estimates: counting a ledger of years would take minutes.
_LIST = (
    "SELECT first_ms, entries, 0 AS bytes, 'detached' AS state FROM ledger_cuts UNION ALL"
    " SELECT (extract(epoch FROM to_date(substr(c.relname, 8), 'YYYY_MM')) * 1000)::bigint,"
    " GREATEST(c.reltuples, 0)::bigint, pg_total_relation_size(c.oid), 'in the ledger'"
    " FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid"
    " WHERE i.inhparent = 'ledger'::regclass AND NOT i.inhdetachpending ORDER BY first_ms"
)
_OPERATION = re.compile(f"[0-9a-f]{{{2 * OPERATION_BYTES}}}", re.ASCII)
_MonthArgument = Annotated[str, typer.Argument(metavar="MONTH", help="As 2025-11, in UTC.")]
_Exports = Annotated[list[Path], typer.Argument(metavar="FOLDER...", help="Exports of months, or their folder.")]
_Exported = Annotated[list[Path], typer.Option("--exported", help="Exports of months, or their folder.")]
_OwnerUrlOption = Annotated[
    str | None,
    typer.Option(
        "--owner-url",
        envvar="LEDGER_STORAGE__POSTGRES_MIGRATIONS_URL",
        help="Your own PostgreSQL, with the role that owns the tables; else that of the data folder.",
    ),
]


def add_months(cli: typer.Typer) -> None:
    months = typer.Typer(
        help="Old months of the ledger: exported to files, proven, and detached.", no_args_is_help=True
    )
    cli.add_typer(months, name="months")
    _add_list(months)
    _add_export(months)
    _add_verify(months)
    _add_detach(months)
    _add_receipt(months)


def _add_list(months: typer.Typer) -> None:
    @months.command("list")
    def listing(
        postgres_url: PostgresUrlOption = None,
        data_dir: DataDirOption = None,
        settings_dir: SettingsDirOption = None,
        xdg_data_home: XdgOption = "",
    ) -> None:
        """Show the months of the ledger, with about so many entries, their disk, and which were detached."""
        place = postgres_url, data_dir, folder_of(data_dir, settings_dir, xdg_data_home)
        rows = [
            {"month": month_from(row["first_ms"]).name, **dict(list(row.items())[1:])}
            for row in _on_database(*place, lambda connection: connection.fetch(_LIST))
        ]
        if not print_document(rows):
            print_table(["month", "entries, about", "bytes", "state"], [list(row.values()) for row in rows])
            say("Next: `months export MONTH --to FOLDER` writes a closed month to files.")


def _add_export(months: typer.Typer) -> None:
    @months.command("export")
    def export_command(
        month: _MonthArgument,
        to: Annotated[Path, typer.Option("--to", help="Folder of exports; the month gets one of its own in it.")],
        postgres_url: PostgresUrlOption = None,
        data_dir: DataDirOption = None,
        settings_dir: SettingsDirOption = None,
        xdg_data_home: XdgOption = "",
    ) -> None:
        """Write a closed month of all accounts to Parquet files, with its signed statements; changes nothing."""
        place = postgres_url, data_dir, folder_of(data_dir, settings_dir, xdg_data_home)
        wanted, progress = _month(month), _Progress()

        def work(connection: asyncpg.Connection) -> Awaitable[Any]:
            return export(connection, wanted, to, progress.rows)

        made = _on_database(*place, work)
        told = made.manifest
        if not print_document({"folder": str(made.folder), "entries": told.entries, "accounts": told.accounts}):
            sizes = sum(file.bytes for file in told.files)
            say(f"{told.entries} entries of {told.accounts} accounts, {told.statements} statements: {made.folder}")
            say(f"{len(told.files)} files, {sizes / 1e6:.1f} MB.")
            say(f"Next: `months verify {made.folder}`, and copy it elsewhere.")


def _add_verify(months: typer.Typer) -> None:
    @months.command("verify")
    def verify_command(folders: _Exports, roots_keys: RootsKeysOption = None) -> None:
        """Prove exports from their files alone; exit 1 on any difference, 2 if one cannot be read."""
        with exit_where_unreadable(report_console(), _NO_TABLES):
            keys = None if roots_keys is None else read_keys(roots_keys)
            report = verify(open_months(folders), keys, _Progress().rows)
        if not print_document(_report_document(report)):
            _show(report, keys is not None)
        report.exit()


def _add_detach(months: typer.Typer) -> None:
    @months.command("detach")
    def detach_command(
        month: _MonthArgument,
        exported: Annotated[Path, typer.Option("--exported", help="The export of this month, or the folder it is in.")],
        drop: Annotated[bool, typer.Option("--drop", help="Drop the month's table too, which frees its disk.")] = False,
        owner_url: _OwnerUrlOption = None,
        data_dir: DataDirOption = None,
        config: ConfigFileOption = None,
        settings_dir: SettingsDirOption = None,
        xdg_data_home: XdgOption = "",
    ) -> None:
        """Compare an export with the database row for row, and take the month out of the ledger."""
        with exit_where_unreadable(Console(stderr=True, soft_wrap=True), _NO_TABLES):
            wanted = month_of(month)
            inside = exported / wanted.folder
            opened = open_month(inside if inside.is_dir() else exported)
        if opened.manifest.of != wanted:
            fail(f"{opened.folder} is the export of {opened.manifest.month}, and not of {wanted.name}")
        try:
            kept_months = settings(Options(None, False, config, None, {})).config.accounts.ledger_kept_months
        except ConfigError as error:
            fail(str(error))

        async def work(connection: asyncpg.Connection) -> Detached:
            await require_none_before(connection, FROM_RELEASE)
            return await detach(connection, opened, kept_months, drop=drop, told=_tell)

        place = owner_url, data_dir, folder_of(data_dir, settings_dir, xdg_data_home)
        done = _on_database(*place, work, as_owner=True)
        if not print_document(asdict(done)):
            tables = f"{', '.join(done.tables) or 'no table'} {'dropped' if done.dropped else 'detached'}"
            say(f"{done.month} has left the ledger: {done.entries} entries, {tables}.")
            say(f"Next: `ledger-gateway audit --exported {opened.folder.parent}`, and a new checkpoint.")


def _add_receipt(months: typer.Typer) -> None:
    @months.command("receipt")
    def receipt_command(
        account: Annotated[str, typer.Argument(metavar="PUBKEY", help="The account.")],
        name: Annotated[str, typer.Argument(help="An operation of X-Receipt, or AT_MS-NUMBER of an entry.")],
        exported: _Exported,
    ) -> None:
        """Make the receipts of an entry of a detached month, as JSON for `ledger-gateway verify`."""
        pubkey = parse_pubkey(account)
        place = parse_cursor(name)
        if pubkey is None:
            fail(f"{account!r} is no public key")
        if place is None and not _OPERATION.fullmatch(name.lower()):
            fail("a receipt is named by an operation (32 characters), or by at_ms and number, as 1764086400000-17")
        with exit_where_unreadable(Console(stderr=True, soft_wrap=True), _NO_TABLES):
            receipts = ExportedReceipts(open_months(exported), pubkey)
            found = receipts.of_operation(bytes.fromhex(name)) if place is None else [receipts.of_entry(*place)]
        document = {"receipts": [receipt_body(pubkey, one) for one in found]}
        if not print_document(document):
            Console().print_json(data=document)


def _on_database(
    url: str | None,
    data_dir: Path | None,
    folder: Path,
    work: Callable[[asyncpg.Connection], Awaitable[_T]],
    *,
    as_owner: bool = False,
) -> _T:
    """Run `work` over a connection. An option that names a folder goes before a variable that names a database."""

    async def run() -> _T:
        async with database(None if data_dir is not None else url, folder, as_owner=as_owner) as found:
            name = {"application_name": application_name("ledger-gateway months"), "statement_timeout": "0"}
            connection = await asyncpg.connect(found, timeout=10, server_settings=name)
            try:
                return await work(connection)
            finally:
                await connection.close()

    os.nice(_NICE)
    try:
        with exit_where_unreadable(Console(stderr=True, soft_wrap=True), _NO_TABLES):
            return asyncio.run(run())
    except SchemaMismatch as error:
        fail(str(error))


def _month(name: str) -> Month:
    with exit_where_unreadable(Console(stderr=True, soft_wrap=True), _NO_TABLES):
        return month_of(name)


def _tell(step: str) -> None:
    Console(stderr=True, soft_wrap=True).print(f"{step} ...", highlight=False, markup=False)


class _Progress:
    """Prints the progress of a long command from time to time."""

    def __init__(self) -> None:
        self._clock = SystemClock()
        self._next = self._clock.monotonic() + _TOLD_SECONDS

    def rows(self, number: int) -> None:
        if self._clock.monotonic() >= self._next:
            self._next = self._clock.monotonic() + _TOLD_SECONDS
            _tell(f"{number} entries")


def _report_document(report: ExportReport) -> dict[str, Any]:
    told = {"months": report.months, "accounts": report.accounts, "entries": report.entries}
    told |= {"statements": report.statements, "without_beginning": report.beginnings}
    return told | {"differences": report.faults_total, "faults": report.faults}


def _show(report: ExportReport, is_pinned: bool) -> None:
    console = report_console()
    months: Sequence[str] = report.months
    console.print(
        f"{', '.join(months)}: {report.entries} entries of {report.accounts} accounts, {report.statements} statements."
    )
    if report.faults_total:
        report.show_faults(
            "account or month", "Next: take another copy of the export, or export the month again.", console
        )
        return
    console.print("Every chain is whole, sums are those of the manifests, and each entry is in a signed statement.")
    if report.beginnings:
        console.print(
            f"{report.beginnings} accounts have older entries: give the months before too, to recount their batches."
        )
    if not is_pinned:
        console.print("The keys that the exports name were believed: --roots-keys FILE takes those that you saved.")
