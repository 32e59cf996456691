"""`ledger`: the entries of an account's ledger, on the screen or in a file."""

import csv
import io
import json
from collections.abc import AsyncIterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ledger_gateway.cli.account_commands import csv_cell
from ledger_gateway.cli.output import builtin
from ledger_gateway.cli.shell import Refused, Shell, command
from ledger_gateway.frames import new_file, write_ledger
from ledger_gateway.records import LedgerEntry

APP = typer.Typer(no_args_is_help=True)
_SHOWN = ("time", "type", "method", "credits", "balance", "number")
_COLUMNS = LedgerEntry.__struct_fields__


class LedgerFormat(StrEnum):
    CSV, JSONL, PARQUET = "csv", "jsonl", "parquet"


@APP.callback()
def _group() -> None:
    """Makes a group of the one command, as the other modules have one."""


@command(APP)
async def ledger(
    shell: Shell,
    from_: Annotated[str | None, typer.Option("--from", help="Entries from this time on, ISO 8601 in UTC.")] = None,
    to: Annotated[str | None, typer.Option("--to", help="Entries before this time.")] = None,
    kind: Annotated[
        str | None, typer.Option("--type", help="deposit, bonus, debit, refund, adjustment, expiry.")
    ] = None,
    method: Annotated[str | None, typer.Option("--method", help="Charges of this method, and their refunds.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=10_000, help="How many to show; not for --out.")] = 20,
    form: Annotated[LedgerFormat, typer.Option("--format", help="Of --out.")] = LedgerFormat.CSV,
    out: Annotated[Path | None, typer.Option("--out", help="Write all of them here; a new file.")] = None,
) -> None:
    """Show entries of the ledger, newest first, or write them all to a file."""
    filters = {"from_": from_, "to": to, "type": kind, "method": method}
    async with shell.caller() as gateway:
        if out is not None:
            if form is LedgerFormat.PARQUET:
                try:
                    written = await write_ledger(gateway, out, lambda so_far: shell.out.say(f"{so_far:,}"), **filters)
                except ImportError as error:
                    raise Refused(str(error), "choose another --format, or install it.") from None
            else:
                written = await _write(out, form, gateway.ledger_entries(**filters))
            shell.out.rows({"entries": written, "file": str(out)})
            shell.out.next(
                "`ledger-gateway ledger --from TIME --out FILE` adds what comes later, in a file of its own."
            )
            return None
        found = [entry async for entry in _first(gateway.ledger_entries(**filters), limit)]
    if shell.out.as_json:
        return shell.out.document(found)
    rows = [
        {**builtin(entry), "time": f"{entry.timestamp[:10]} {entry.timestamp[11:19]}", "credits": f"{entry.amount:+,}"}
        for entry in found
    ]
    shell.out.table(rows, _SHOWN, ("credits", "balance", "number"))
    shell.out.text("Times are in UTC; credits and balance are whole credits.")
    shell.out.next("`--json` has request ids and signatures too; `--out FILE --format parquet` writes all entries.")
    return None


async def _first(entries: AsyncIterator[LedgerEntry], most: int) -> AsyncIterator[LedgerEntry]:
    count = 0
    async for entry in entries:
        yield entry
        count += 1
        if count == most:
            return


async def _write(path: Path, form: LedgerFormat, entries: AsyncIterator[LedgerEntry]) -> int:
    """Write entries one after the other, so that memory stays flat. An error on the way leaves no file."""
    written = 0
    with new_file(path) as file, io.TextIOWrapper(file, encoding="utf-8", newline="") as text:
        writer = csv.writer(text)
        if form is LedgerFormat.CSV:
            writer.writerow(_COLUMNS)
        async for entry in entries:
            if form is LedgerFormat.CSV:
                writer.writerow([csv_cell(getattr(entry, name)) for name in _COLUMNS])
            else:
                text.write(json.dumps(builtin(entry)) + "\n")
            written += 1
    return written
