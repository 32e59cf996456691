"""`python -m actors.accounts.audit`: checks that the ledger adds up, to the credit.

Implements: money rule 6. Reads the database and nothing else, in one snapshot, so it may run beside a
serving instance. Memory stays flat: accounts, entries and batches are read as three ordered streams.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import asyncpg
import typer
from rich.console import Console
from rich.table import Table

from actors.accounts import audit_facts
from actors.accounts.audit_database import (
    AgainstOption,
    DataDirOption,
    ExportedOption,
    KeyOption,
    OrderedRows,
    PostgresUrlOption,
    RootsKeysOption,
    RootsOption,
    SettingsDirOption,
    XdgOption,
    folder_of,
    reading,
    report_console,
)
from actors.accounts.audit_queries import ACROSS
from actors.accounts.audit_report import AuditReport, exit_where_unreadable
from actors.accounts.checkpoint import Checkpoints, CheckpointWriter, open_checkpoints
from actors.accounts.facts import REFERRALS, ChainLink, name_of
from actors.accounts.ledger import Entry, EntryType
from actors.accounts.months.auditing import CutsAudit
from actors.accounts.months.files import open_months
from actors.accounts.recount import Recount
from actors.accounts.signed_links import SignedLinks
from actors.accounts.stored import stored_head
from actors.receipts import roots_file
from actors.units import routing_bytes, usdc_text, virtual_shard

_ROWS_AHEAD = 2_000
# A further audit, by another context, of the same snapshot into the same report.
FurtherAudit = Callable[[asyncpg.Connection, AuditReport], Awaitable[None]]
_PAST_ALL = b"\xff" * 33  # Sorts after every public key.


@dataclass(slots=True)
class LedgerReport(AuditReport):
    accounts: int = 0
    entries: Counter[int] = field(default_factory=Counter)  # By type.
    credits: Counter[int] = field(default_factory=Counter)
    balance: int = 0
    received_base_units: int = 0  # USDC received by all credited transfers, in base units.
    earned: int = 0  # Credits for these transfers, at the rate of their days.
    assigned: int = 0  # Part of `earned` that an operator assigned (entries of type adjustment).
    checkpoint_at: int | None = None  # Time of the compared checkpoint, in Unix seconds.
    statements: int = 0  # Signed statements compared.
    statements_at_ms: int = 0  # Time of the newest compared statement.
    written: Path | None = None  # Path of the new checkpoint.
    # Months that were detached from the ledger; their sums are included above.
    detached: list[str] = field(default_factory=list)
    exported: int = 0  # Exports of detached months that were read.
    links_passed: int = 0  # Checkpoint links not compared, because the export with their entries was not given.


async def audit(
    connection: asyncpg.Connection, checkpoints: Checkpoints | None = None, further: Sequence[FurtherAudit] = ()
) -> LedgerReport:
    """Recompute everything. The connection should have no statement timeout. Raises checkpoint.CheckpointError."""
    wanted = checkpoints or Checkpoints()
    report = LedgerReport(checkpoint_at=None if wanted.earlier is None else wanted.earlier.at)
    if wanted.signed is not None:
        report.statements, report.statements_at_ms = wanted.signed.statements, wanted.signed.at_ms
    now = await connection.fetchval("SELECT extract(epoch FROM now())::bigint")
    writer = None if wanted.later is None else CheckpointWriter(wanted.later, wanted.key, now)
    try:
        await _audit(connection, wanted, writer, report, further)
        if writer is not None and report.faults_total == 0:
            writer.finish()
            report.written = wanted.later
    finally:
        if writer is not None and report.written is None:
            writer.discard()
    return report


async def _audit(
    connection: asyncpg.Connection,
    wanted: Checkpoints,
    writer: CheckpointWriter | None,
    report: LedgerReport,
    further: Sequence[FurtherAudit],
) -> None:
    earlier, signed = wanted.earlier, wanted.signed
    unseen = set() if signed is None else signed.accounts()
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        cuts = await CutsAudit.open(connection, wanted.exported, report)
        report.exported = len(wanted.exported)
        _add_cuts(cuts, report)
        # In the order of the primary keys, so that the database streams instead of sorting.
        entries = OrderedRows(
            aiter(
                connection.cursor(
                    "SELECT pubkey, seq, at_ms, type, amount, balance, operation_id, method, outcome, description,"
                    " parcels, hash FROM ledger WHERE at_ms >= $1 ORDER BY pubkey, at_ms, seq",
                    cuts.kept_from_ms,
                    prefetch=_ROWS_AHEAD,
                )
            )
        )
        batches = OrderedRows(
            aiter(
                connection.cursor(
                    "SELECT pubkey, id, remaining FROM credit_batches ORDER BY pubkey, id", prefetch=_ROWS_AHEAD
                )
            )
        )
        await entries.advance()
        await batches.advance()
        async for row in connection.cursor("SELECT * FROM accounts ORDER BY pubkey", prefetch=_ROWS_AHEAD):
            link, gone = (None, []) if earlier is None else earlier.link_of(row["pubkey"])
            recount = Recount(row["pubkey"], then=link)
            if signed is not None:
                recount.signed, recount.signed_before_ms = signed.of(row["pubkey"]), signed.signed_before_ms
            await cuts.begin(recount)
            await _audit_account(row, entries, batches, recount, report)
            unseen.discard(row["pubkey"])
            _add_gone(gone, report)
            if writer is not None:
                writer.account(row["pubkey"], ChainLink(row["seq"], row["head_hash"]))
        for rows, what in ((entries, "entries"), (batches, "batches")):
            for pubkey in await rows.of(_PAST_ALL, lambda _: None):
                report.add(pubkey, f"it has {what} and no account")
        await cuts.close()
        report.links_passed = cuts.links_passed
        if earlier is not None:
            _add_gone(earlier.link_of(_PAST_ALL)[1], report)
        for pubkey in sorted(unseen):
            report.add(pubkey, "a signed statement has this account, and it is gone")
        await _audit_facts(connection, {} if earlier is None else earlier.shards, writer, report)
        await _audit_deposits(connection, report)
        for what, query in ACROSS.items():
            async for row in connection.cursor(query, prefetch=_ROWS_AHEAD):
                report.add(row[0], f"{what}: {row[1].hex() if isinstance(row[1], bytes) else row[1]}")
        for each in further:
            await each(connection, report)


def _add_cuts(cuts: CutsAudit, report: LedgerReport) -> None:
    """Add the sums of detached months."""
    report.detached = cuts.months()
    for kind, (count, credits) in cuts.sums().items():
        report.entries[kind] += count
        report.credits[kind] += credits


def _add_gone(pubkeys: list[bytes], report: LedgerReport) -> None:
    for pubkey in pubkeys:
        report.add(pubkey, "the account was there at the checkpoint, and is gone")


async def _audit_facts(
    connection: asyncpg.Connection, then: Mapping[int, ChainLink], writer: CheckpointWriter | None, report: LedgerReport
) -> None:
    async for pubkey, faults in audit_facts.differing_rows(connection):
        report.add(pubkey or name_of(REFERRALS), *faults)
    async for shard, link, faults in audit_facts.chains(connection, then):
        report.add(name_of(shard), *faults)
        if writer is not None:
            writer.shard(shard, link)


async def _audit_deposits(connection: asyncpg.Connection, report: LedgerReport) -> None:
    """Compare the credits granted with USDC received times the rate; ACROSS compares each transfer."""
    row = await connection.fetchrow(
        "SELECT COALESCE(sum(base_units), 0)::bigint, COALESCE(sum(credits), 0)::bigint,"
        " COALESCE(sum(credits) FILTER (WHERE assigned), 0)::bigint FROM account_deposits"
    )
    assert row is not None
    report.received_base_units, report.earned, report.assigned = row
    granted = report.credits[EntryType.DEPOSIT] + report.assigned
    if granted != report.earned:
        report.add("all", f"credits granted for deposits: {granted}, by what was received {report.earned}")


async def _audit_account(
    row: Any, entries: OrderedRows, batches: OrderedRows, recount: Recount, report: LedgerReport
) -> None:
    pubkey: bytes = row["pubkey"]
    left: dict[int, int] = {}

    def feed(entry_row: Any) -> None:
        _, *columns, stored_hash = entry_row
        entry = Entry(*columns)
        report.entries[entry.type] += 1
        report.credits[entry.type] += entry.amount
        recount.feed(entry, stored_hash)

    def keep(batch_row: Any) -> None:
        left[batch_row["id"]] = batch_row["remaining"]

    for stray in await entries.of(pubkey, feed):
        report.add(stray, "it has entries and no account")
    for stray in await batches.of(pubkey, keep):
        report.add(stray, "it has batches and no account")
    report.accounts += 1
    report.balance += row["balance"]
    report.add(pubkey, *recount.close(stored_head(row), left))
    if row["virtual_shard"] != virtual_shard(routing_bytes(pubkey)):
        report.add(pubkey, f"it stands in shard {row['virtual_shard']}, which is not its own")


def show(report: LedgerReport, console: Console) -> None:
    table = Table("type", "entries", "credits", title=f"{report.accounts} accounts")
    for kind in EntryType:
        table.add_row(kind.name.lower(), str(report.entries[kind]), str(report.credits[kind]))
    table.add_section()
    table.add_row("all", str(report.entries.total()), str(report.credits.total()))
    table.add_row("balances", "", str(report.balance))
    console.print(table)
    assigned = f", {report.assigned} of them assigned by the operator" if report.assigned else ""
    received, bonuses = usdc_text(report.received_base_units), report.credits[EntryType.BONUS]
    console.print(f"USDC received: {received}; credits for it: {report.earned}{assigned}; bonuses: {bonuses}.")
    if report.checkpoint_at is not None:
        console.print(f"Compared with the checkpoint of {datetime.fromtimestamp(report.checkpoint_at, UTC):%F %T} UTC.")
    if report.statements:
        newest = f"{datetime.fromtimestamp(report.statements_at_ms // 1000, UTC):%F %T}"
        console.print(f"Compared with {report.statements} signed statements, the newest of {newest} UTC.")
    if report.detached:
        _show_detached(report, console)
    if report.faults_total == 0:
        console.print("The ledger adds up: every balance, batch, profile and hash chain is what its entries say.")
        if report.written is not None:
            console.print(f"Checkpoint written to {report.written}. Keep it and its key away from the database.")
        return
    report.show_faults(
        "account",
        "Next: suspend these accounts (`python serve_app.py accounts suspend PUBKEY`), keep a copy of the database as "
        "it is, and restore the last backup that passes this audit beside it. Never edit the ledger: a correction is a "
        "new entry.",
        console,
    )


def _show_detached(report: LedgerReport, console: Console) -> None:
    months = f"{len(report.detached)} months up to {report.detached[-1]} left the ledger"
    if report.exported:
        console.print(f"{months}: each chain was recomputed from its first entry on, through their exports.")
        return
    console.print(
        f"{months}: chains begin with what their accounts carried over. --exported FOLDER proves all of them."
    )
    if report.links_passed:
        console.print(f"{report.links_passed} links of the checkpoint are of those months, and were not compared.")


def document(report: LedgerReport) -> dict[str, Any]:
    """Return the report as JSON values. sums: entries and credits of each type."""
    sums = {kind.name.lower(): [report.entries[kind], report.credits[kind]] for kind in EntryType}
    told = {"accounts": report.accounts, "balance": report.balance, "sums": sums, "differences": report.faults_total}
    told |= {"detached": report.detached, "exported": report.exported}
    return told | {"faults": report.faults}


async def run(
    postgres_url: str | None, data_dir: Path, checkpoints: Checkpoints, further: Sequence[FurtherAudit] = ()
) -> LedgerReport:
    async with reading(postgres_url, data_dir, "ledger audit") as connection:
        return await audit(connection, checkpoints, further)


def command(*further: FurtherAudit) -> Callable[..., None]:
    """Make the command that runs this audit together with further ones."""

    def main(
        postgres_url: PostgresUrlOption = None,
        data_dir: DataDirOption = None,
        later: Annotated[
            Path | None, typer.Option("--checkpoint", help="Write the newest link of every chain here, signed.")
        ] = None,
        earlier: AgainstOption = None,
        key: KeyOption = None,
        roots: RootsOption = None,
        roots_keys: RootsKeysOption = None,
        exported: ExportedOption = None,
        as_json: Annotated[bool, typer.Option("--json", help="One JSON document, for programs.")] = False,
        settings_dir: SettingsDirOption = None,
        xdg_data_home: XdgOption = "",
    ) -> None:
        """Recompute every balance and hash chain from the ledger; exit 1 on any difference, 2 if it cannot be read."""
        console, folder = report_console(), folder_of(data_dir, settings_dir, xdg_data_home)
        no_tables = "This database has no accounts yet: start the product once, or name another with --postgres-url."
        with exit_where_unreadable(console, no_tables), open_checkpoints(earlier, later, key) as checkpoints:
            url = None if data_dir is not None else postgres_url
            files = roots or (_own_roots(folder) if url is None else [])
            checkpoints.signed = SignedLinks(files, roots_keys) if files else None
            checkpoints.exported = open_months(exported or [])
            report = asyncio.run(run(url, folder, checkpoints, further))
        console.print_json(data=document(report)) if as_json else show(report, console)
        report.exit()

    return main


def _own_roots(folder: Path) -> list[Path]:
    """Return the files of signed statements of a local run, when its own database is audited."""
    return [folder / "roots"] if any((folder / "roots").glob(roots_file.FILES)) else []


if __name__ == "__main__":
    typer.run(command())
